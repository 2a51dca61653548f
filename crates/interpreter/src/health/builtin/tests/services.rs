use super::check;

#[test]
fn services_are_judged() {
    let cases = r"
        cluster address | Healthy | | | {spec: {type: ClusterIP}}
        type unset | Healthy | | | {}
        address | Healthy | | | {spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip:
            10.0.0.1}]}}}
        host name | Healthy | | | {spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{},
            {hostname: a.example.org}]}}}
        no status | Progressing | LoadBalancerPending | | {spec: {type: LoadBalancer}}
        no entry | Progressing | LoadBalancerPending |
            | {spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: []}}}
        entry without an address | Progressing | LoadBalancerPending | | {spec: {type:
            LoadBalancer}, status: {loadBalancer: {ingress: [{ipMode: VIP, ip: ''}]}}}
        port error | Degraded | MixedProtocolNotSupported | port 443 | {spec: {type: LoadBalancer},
            status: {loadBalancer: {ingress: [{ip: 10.0.0.1, ports: [{port: 80}, {port: 443,
            error: MixedProtocolNotSupported}]}]}}}
    ";
    check("v1", "Service", cases);
}

#[test]
fn ingresses_are_judged() {
    for api_version in ["networking.k8s.io/v1", "extensions/v1beta1"] {
        let cases = r"
            address | Healthy | | | {status: {loadBalancer: {ingress: [{ip: 10.0.0.1}]}}}
            host name | Healthy | | | {status: {loadBalancer: {ingress: [{hostname:
                a.example.org}]}}}
            empty entry | Progressing | NoAddress | no address published
                | {status: {loadBalancer: {ingress: [{}]}}}
            no status | Progressing | NoAddress | | {}
            odd address | Progressing | NoAddress |
                | {status: {loadBalancer: {ingress: [{ip: 7}, 8]}}}
        ";
        check(api_version, "Ingress", cases);
    }
}
