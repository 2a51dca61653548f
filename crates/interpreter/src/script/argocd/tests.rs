use serde_json::json;

use super::*;
use crate::health::Health;
use crate::test_rows::typed;

fn config_map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}, "data": data})
}

/// A script that says its name.
fn script(name: &str) -> String {
    format!("hs = {{}}\nhs.status = 'Healthy'\nhs.message = '{name}'\nreturn hs\n")
}

fn chosen(health: &ArgoHealth, group: &str, kind: &str) -> Option<String> {
    let script = health.script_for(group, kind)?;
    Some(script.run(&json!({}))?.message)
}

fn load(data: &Value) -> Result<ArgoHealth, ArgoHealthError> {
    ArgoHealth::from_config_map(&config_map(data))
}

fn form_1(keys: &[&str]) -> Value {
    let map: Map<String, Value> = keys
        .iter()
        .map(|key| {
            (
                (*key).to_owned(),
                json!({"health.lua": script(key), "health.lua.useOpenLibs": true}),
            )
        })
        .collect();
    json!({"resource.customizations": serde_saphyr::to_string(&map).unwrap()})
}

#[test]
fn a_map_of_customizations_is_read() {
    let yaml = "
apps/Deployment:
  health.lua: |
    return {status = 'Healthy', message = 'a deployment'}
  health.lua.useOpenLibs: true
  actions: |
    discovery.lua: x
Service:
  health.lua: return {status = 'Degraded', message = 'a service'}
extensions/Ingress:
  ignoreDifferences: |
    jsonPointers: [/spec]
batch/Job:
  health.lua: ''
";
    let health = load(&json!({"resource.customizations": yaml, "url": "https://x"})).unwrap();
    assert_eq!(
        chosen(&health, "apps", "Deployment").as_deref(),
        Some("a deployment")
    );
    assert_eq!(chosen(&health, "", "Service").as_deref(), Some("a service"));
    assert_eq!(chosen(&health, "extensions", "Ingress"), None);
    assert_eq!(chosen(&health, "batch", "Job"), None);
    assert!(health.problems().is_empty());
}

#[test]
fn a_key_for_each_kind_is_read_and_overrides_the_map() {
    let mut data = form_1(&["apps/Deployment", "Service"]);
    data["resource.customizations.health.apps_Deployment"] = json!(script("own key"));
    data["resource.customizations.health.ConfigMap"] = json!(script("core"));
    data["resource.customizations.health.cert-manager.io_Certificate"] = json!(script("dots"));
    data["resource.customizations.useOpenLibs.cert-manager.io_Certificate"] = json!("true");
    data["resource.customizations.ignoreDifferences.all"] = json!("jsonPointers: []");
    data["resource.customizations.actions.apps_Deployment"] = json!("x");
    data["resource.customizations.health"] = json!("too few parts");
    data["resource.customizationsx.health.apps_X"] = json!(script("another key"));
    let health = load(&data).unwrap();
    assert_eq!(
        chosen(&health, "apps", "Deployment").as_deref(),
        Some("own key")
    );
    assert_eq!(chosen(&health, "", "Service").as_deref(), Some("Service"));
    assert_eq!(chosen(&health, "", "ConfigMap").as_deref(), Some("core"));
    assert_eq!(
        chosen(&health, "cert-manager.io", "Certificate").as_deref(),
        Some("dots")
    );
    assert_eq!(chosen(&health, "apps", "X"), None);
}

#[test]
fn all_means_every_kind_that_has_a_group() {
    let health = load(&json!({"resource.customizations.health.all": script("all")})).unwrap();
    assert_eq!(
        chosen(&health, "apps", "Deployment").as_deref(),
        Some("all")
    );
    assert_eq!(chosen(&health, "", "Pod"), None);
}

#[test]
fn wildcards_span_dots_and_slashes() {
    for (pattern, group, kind, matches) in [
        ("*.example.io/*", "a.b.example.io", "Thing", true),
        ("*.example.io/*", "example.io", "Thing", false),
        ("*/Thing", "a.b.io", "Thing", true),
        ("*Thing", "a.b.io", "Thing", true),
        ("*", "", "Pod", true),
        ("*", "apps", "Deployment", true),
        ("*/*", "", "Pod", false),
        ("a*e/D*", "apps.io/e", "D", true),
        ("app?/Deployment", "apps", "Deployment", true),
        ("app?/Deployment", "app", "Deployment", false),
        ("app?Deployment", "app", "Deployment", true),
        ("[a-c]pps/*", "apps", "X", true),
        ("[!a-c]pps/*", "apps", "X", false),
        ("{apps,batch}/*", "batch", "Job", true),
        ("{apps,batch}/*", "core", "Job", false),
        ("batch/{Job,CronJob}", "batch", "CronJob", true),
        ("APPS/*", "apps", "X", false),
    ] {
        let health = load(&form_1(&[pattern])).unwrap();
        assert_eq!(
            chosen(&health, group, kind).is_some(),
            matches,
            "{pattern} {group}/{kind}"
        );
    }
}

#[test]
fn the_exact_key_wins_then_the_longest_literal_part_then_the_alphabet() {
    let health = load(&form_1(&[
        "*/*",
        "apps/*",
        "*/Deployment",
        "apps/Deployment",
        "ap*/Deployment",
        "a*s/Foo",
        "*ps/Foo",
    ]))
    .unwrap();
    for (group, kind, expected) in [
        ("apps", "Deployment", "apps/Deployment"),
        ("apis", "Deployment", "ap*/Deployment"),
        ("apps", "Set", "apps/*"),
        ("b", "Deployment", "*/Deployment"),
        ("b", "Set", "*/*"),
        ("apps", "Foo", "*ps/Foo"),
    ] {
        assert_eq!(
            chosen(&health, group, kind).as_deref(),
            Some(expected),
            "{group}/{kind}"
        );
    }
}

#[test]
fn what_argo_cd_refuses_is_refused() {
    for (data, expected) in [
        (
            json!({"resource.customizations.helth.apps_X": ""}),
            "no known type",
        ),
        (
            json!({"resource.customizations.health.apps_X_Y": ""}),
            "must end with <group>_<Kind>",
        ),
        (
            json!({"resource.customizations.health.": ""}),
            "must end with",
        ),
        (
            json!({"resource.customizations.useOpenLibs.apps_X": "yes"}),
            "true or false",
        ),
        (
            json!({"resource.customizations": "a: [b"}),
            "resource.customizations: ",
        ),
        (
            json!({"resource.customizations": "- a"}),
            "resource.customizations: ",
        ),
    ] {
        let text = load(&data).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    let no_config_map = ArgoHealth::from_config_map(&json!({"kind": "Secret"}));
    assert_eq!(no_config_map.unwrap_err(), ArgoHealthError::NoConfigMap);
    assert!(load(&json!(null)).unwrap().is_empty());
    assert!(
        load(&json!({"resource.customizations": ""}))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_script_that_does_not_compile_is_listed_and_judges_unknown() {
    let health = load(&json!({
        "resource.customizations.health.apps_X": "return {",
        "resource.customizations.health.apps_Y": "goto x\n::x::",
        "resource.customizations.health.apps_Z": script("fine"),
    }))
    .unwrap();
    assert_eq!(chosen(&health, "apps", "Z").as_deref(), Some("fine"));
    let keys: Vec<&str> = health
        .problems()
        .iter()
        .map(|(key, _)| key.as_str())
        .collect();
    assert_eq!(keys, ["apps/X", "apps/Y"]);
    let broken = health
        .script_for("apps", "Y")
        .unwrap()
        .run(&json!({}))
        .unwrap();
    assert_eq!(broken.health, Health::Unknown);
    assert!(
        broken.message.starts_with("line 1: goto x: "),
        "{}",
        broken.message
    );
}

#[test]
fn results_have_the_meaning_that_argo_cd_gives_them() {
    let run = |text: &str| {
        HealthScript::compile(text)
            .unwrap()
            .run(&json!({"kind": "X", "status": {"n": 1}}))
    };
    for nothing in [
        "",
        "return",
        "return nil",
        "return {}",
        "return {status = 1}",
        "return {status = 'Healthy', message = 5}",
        "return {1, 2}",
        "return {status = true}",
        "return {status = {}}",
        "return {status = 'Healthy'}, nil",
    ] {
        assert_eq!(run(nothing), None, "{nothing}");
    }
    let cases = r"
        Healthy | | return {status = 'Healthy'}
        Suspended | m | return {status = 'Suspended', message = 'm'}
        Missing | | return {status = 'Missing', other = {1}}
        Degraded | m | return {Status = 'Degraded', MESSAGE = 'm'}
        Progressing | | return nil, {status = 'Progressing'}
        Unknown | Lua returned an invalid health status | return {status = 'healthy'}
        Unknown | Lua returned an invalid health status | return {message = 'm'}
        Unknown | Lua returned an invalid health status | return {status = ''}
        Degraded | 10 | return {status = 'Degraded', message = tostring(obj.status.n) ..
            #actionParams}
    ";
    for (health, message, text) in typed::<(Health, &str, &str)>(cases) {
        let assessment = run(text).unwrap();
        assert_eq!(
            (assessment.health, assessment.message.as_str()),
            (health, message),
            "{text}"
        );
    }
}

#[test]
fn a_script_with_goto_continue_runs() {
    let text = "
hs = {status = 'Progressing', message = 'Waiting'}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for i, condition in ipairs(obj.status.conditions) do
    if condition.observedGeneration ~= nil and condition.observedGeneration ~= obj.metadata.generation then
      goto continue
    end
    if condition.type == 'Ready' and condition.status == 'True' then
      hs.status = 'Healthy'
      hs.message = condition.message
      return hs
    end
    ::continue::
  end
end
return hs";
    let script = HealthScript::compile(text).unwrap();
    let object = |observed: i64| {
        json!({"metadata": {"generation": 2}, "status": {"conditions": [
            {"type": "Other", "status": "False"},
            {"type": "Ready", "status": "True", "message": "fine", "observedGeneration": observed}]}})
    };
    assert_eq!(script.run(&object(1)).unwrap().health, Health::Progressing);
    assert_eq!(script.run(&object(2)).unwrap().message, "fine");
}
