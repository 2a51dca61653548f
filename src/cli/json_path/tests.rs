use serde_json::{Value, json};

use super::*;

fn pods() -> Value {
    json!({ "kind": "List", "items": [
        { "kind": "Pod", "metadata": { "name": "web-1", "labels": { "app.kubernetes.io/name": "web", "b": "1", "a": "2" } },
          "spec": { "containers": [{ "name": "main", "ports": [80, 443] }, { "name": "side" }] },
          "status": { "phase": "Running", "ready": true, "restarts": 3, "load": 0.5, "none": null } },
        { "kind": "Pod", "metadata": { "name": "web-2" }, "spec": { "containers": [{ "name": "main" }] },
          "status": { "phase": "Pending", "ready": false, "restarts": 0, "load": 1.5 } },
    ] })
}

fn render(template: &str) -> String {
    template.parse::<Template>().unwrap().render(&pods()).unwrap()
}

#[test]
fn templates_print_what_kubectl_prints() {
    for (template, printed) in [
        ("plain text", "plain text"),
        ("{.kind}", "List"),
        ("{$.kind}{@.kind}", "ListList"),
        ("{.items[*].metadata.name}", "web-1 web-2"),
        ("{.items[0].metadata['name']}", "web-1"),
        ("{.items[-1].metadata.name}", "web-2"),
        ("{.items[-1:].metadata.name}", "web-2"),
        ("{.items[0:1].metadata.name}", "web-1"),
        ("{.items[::2].metadata.name}", "web-1"),
        ("{.items[0,1].metadata.name}", "web-1 web-2"),
        ("{.items[*]['metadata.name','status.phase']}", "web-1 web-2 Running Pending"),
        (r"{.items[0].metadata.labels.app\.kubernetes\.io/name}", "web"),
        (r"{.items[0].metadata.labels['app\.kubernetes\.io/name']}", "web"),
        ("{.items[0].metadata.labels}", r#"{"a":"2","app.kubernetes.io/name":"web","b":"1"}"#),
        ("{.items[0].spec.containers[0].ports}", "[80,443]"),
        ("{.items[0].spec.containers[0].ports[1]}", "443"),
        ("{..name}", "web-1 main side web-2 main"),
        ("{.items[*].metadata.labels.*}", "web 1 2"),
        ("{.items[0].status.none}|{.items[0].status.ready}|{.items[0].status.load}", "null|true|0.5"),
        ("{.items[*].nowhere.at.all}", ""),
        ("{range .items[*]}{.metadata.name}{\"\\t\"}{.status.phase}{\"\\n\"}{end}", "web-1\tRunning\nweb-2\tPending\n"),
        ("{range .items[*]}{.metadata.name}:{range .spec.containers[*]} {.name}{end};{end}", "web-1: main side;web-2: main;"),
        ("{range .none[*]}x{end}", ""),
        ("{.items[?(@.status.phase==\"Running\")].metadata.name}", "web-1"),
        ("{.items[?(@.status.phase!='Running')].metadata.name}", "web-2"),
        ("{.items[?(@.status.restarts>0)].metadata.name}", "web-1"),
        ("{.items[?(@.status.restarts<=0)].metadata.name}", "web-2"),
        ("{.items[?(@.status.load>=1.5)].metadata.name}", "web-2"),
        ("{.items[?(@.status.ready==true)].metadata.name}", "web-1"),
        ("{.items[?(@.metadata.labels)].metadata.name}", "web-1"),
        ("{.items[?(@.metadata.labels.b=='1')].metadata.name}", "web-1"),
        ("{.items[?(@.status.phase=='a)]}')].metadata.name}", ""),
        ("{.items[0:0].metadata.name}", ""),
    ] {
        assert_eq!(render(template), printed, "{template}");
    }
}

#[test]
fn paths_may_leave_braces_and_the_first_dot_out() {
    for path in
        ["metadata.name", ".metadata.name", "{metadata.name}", "{.metadata.name}", " {.metadata.name} ", "$.metadata.name"]
    {
        let parsed: Path = path.parse().unwrap();
        let pods = pods();
        assert_eq!(parsed.find(&pods["items"][0]).unwrap(), [&json!("web-1")], "{path}");
    }
    for path in ["", "{}", "{.a", "{.a}{.b}", "a}"] {
        assert!(path.parse::<Path>().is_err(), "{path}");
    }
}

#[test]
fn mistakes_are_named() {
    let problem = |text: &str| text.parse::<Template>().unwrap_err().to_string();
    insta::assert_snapshot!(problem("{.items[*]"), @r#"JSONPath "{.items[*]": a brace { is not closed"#);
    insta::assert_snapshot!(problem("{range .items[*]}x"), @r#"JSONPath "{range .items[*]}x": {range} without {end}"#);
    insta::assert_snapshot!(problem("{end}"), @r#"JSONPath "{end}": {end} without {range}"#);
    insta::assert_snapshot!(problem("{name}"), @r#"JSONPath "{name}": "name" is no path; paths begin with a dot, such as .name"#);
    insta::assert_snapshot!(problem("{.a[b]}"), @r#"JSONPath "{.a[b]}": [b] is neither an index, a slice, a filter nor a key in quotes"#);
    insta::assert_snapshot!(problem("{.a[?(@.b=~'x')]}"), @r#"JSONPath "{.a[?(@.b=~'x')]}": = compares nothing; these do: ==, !=, <, <=, >, >="#);
    insta::assert_snapshot!(problem(r#"{"\q"}"#), @r#"JSONPath "{\"\\q\"}": \q in quotes is nothing that is known; \n, \t, \r, \\ and quotes are"#);
    let failure = |text: &str| text.parse::<Template>().unwrap().render(&pods()).unwrap_err().to_string();
    assert_eq!(failure("{.items[5]}"), "array index out of bounds: index 5, length 2");
    assert_eq!(failure("{.kind[0]}"), "List is not a list");
    assert_eq!(failure("{.items[?(@.status.restarts=='3')]}"), "incompatible types for comparison: 3 and 3");
}

#[test]
fn custom_columns_show_lists_and_maps_as_go_does() {
    assert_eq!(go_text(&json!({ "b": [1, "x"], "a": { "c": null } })), "map[a:map[c:<nil>] b:[1 x]]");
}
