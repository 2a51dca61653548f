use proptest::prelude::*;
use serde_json::{Value, json};

use super::{template::Template, *};

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
    template
        .parse::<Template>()
        .unwrap()
        .render(&pods())
        .unwrap()
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
        (
            "{.items[*]['metadata.name','status.phase']}",
            "web-1 web-2 Running Pending",
        ),
        (
            r"{.items[0].metadata.labels.app\.kubernetes\.io/name}",
            "web",
        ),
        (
            r"{.items[0].metadata.labels['app\.kubernetes\.io/name']}",
            "web",
        ),
        (
            "{.items[0].metadata.labels}",
            r#"{"a":"2","app.kubernetes.io/name":"web","b":"1"}"#,
        ),
        ("{.items[0].spec.containers[0].ports}", "[80,443]"),
        ("{.items[0].spec.containers[0].ports[1]}", "443"),
        ("{..name}", "web-1 main side web-2 main"),
        ("{.items[*].metadata.labels.*}", "web 1 2"),
        (
            "{.items[0].status.none}|{.items[0].status.ready}|{.items[0].status.load}",
            "null|true|0.5",
        ),
        ("{.items[*].nowhere.at.all}", ""),
        (
            "{range .items[*]}{.metadata.name}{\"\\t\"}{.status.phase}{\"\\n\"}{end}",
            "web-1\tRunning\nweb-2\tPending\n",
        ),
        (
            "{range .items[*]}{.metadata.name}:{range .spec.containers[*]} {.name}{end};{end}",
            "web-1: main side;web-2: main;",
        ),
        ("{range .none[*]}x{end}", ""),
        (
            "{.items[?(@.status.phase==\"Running\")].metadata.name}",
            "web-1",
        ),
        (
            "{.items[?(@.status.phase!='Running')].metadata.name}",
            "web-2",
        ),
        ("{.items[?(@.status.restarts>0)].metadata.name}", "web-1"),
        ("{.items[?(@.status.restarts<=0)].metadata.name}", "web-2"),
        ("{.items[?(@.status.load>=1.5)].metadata.name}", "web-2"),
        ("{.items[?(@.status.ready==true)].metadata.name}", "web-1"),
        ("{.items[?(@.metadata.labels)].metadata.name}", "web-1"),
        (
            "{.items[?(@.metadata.labels.b=='1')].metadata.name}",
            "web-1",
        ),
        ("{.items[?(@.status.phase=='a)]}')].metadata.name}", ""),
        ("{.items[0:0].metadata.name}", ""),
        (r#"{.items[*].metadata.name "x"}"#, "x"),
        ("{.kind(x)}", ""),
    ] {
        assert_eq!(render(template), printed, "{template}");
    }
}

#[test]
fn paths_may_leave_braces_and_the_first_dot_out() {
    for path in [
        "metadata.name",
        ".metadata.name",
        "{metadata.name}",
        "{.metadata.name}",
        " {.metadata.name} ",
        "$.metadata.name",
    ] {
        let parsed: JsonPath = path.parse().unwrap();
        let pods = pods();
        assert_eq!(
            parsed.find(&pods["items"][0]).unwrap(),
            [&json!("web-1")],
            "{path}"
        );
    }
    for path in ["", "{}", "{.a", "{.a}{.b}", "a}"] {
        assert!(path.parse::<JsonPath>().is_err(), "{path}");
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
    insta::assert_snapshot!(problem("{.a[?(@.b=~'x')]}"), @r#"JSONPath "{.a[?(@.b=~'x')]}": = is no comparison; these are: ==, !=, <, <=, >, >="#);
    insta::assert_snapshot!(problem(r#"{"\q"}"#), @r#"JSONPath "{\"\\q\"}": unknown escape \q in quotes; \n, \t, \r, \\ and escaped quotes are known"#);
    let failure = |text: &str| {
        text.parse::<Template>()
            .unwrap()
            .render(&pods())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        failure("{.items[5]}"),
        "array index out of bounds: index 5, length 2"
    );
    assert_eq!(failure("{.kind[0]}"), "List is not a list");
    assert_eq!(
        failure("{.items[?(@.status.restarts=='3')]}"),
        "incompatible types for comparison: 3 and 3"
    );
}

#[test]
fn paths_find_what_kubectl_finds() {
    let object = json!({ "a": { "b.c/d": 1, "list": [{ "n": "x", "v": 1 }, { "n": "y", "v": 2 }, { "n": "z", "v": 3, "w": { "v": 4 } }], "q": "a'b" } });
    let found = |path: &str| {
        let parsed = path
            .parse::<JsonPath>()
            .and_then(|path| Ok(json!(path.find(&object)?)));
        parsed.map_or_else(|error| error.to_string(), |found| found.to_string())
    };
    let paths = [
        ".a.list[0].n",
        ".a.list[-1].n",
        ".a.list[5].n",
        ".a.list[*].n",
        ".a.list[0:2].v",
        ".a.list[1:].v",
        ".a.list[:-1].v",
        ".a.list[0:3:2].v",
        ".a.list[0,2].v",
        ".a['list','q']",
        r".a.b\.c/d",
        r".a['b\.c/d']",
        ".a..v",
        ".a.*.n",
        ".a.list.n",
        ".absent.deep",
        r#".a.list[?(@.n=="y")].v"#,
        ".a.list[?(@.n != 'y')].v",
        ".a.list[?(@.v>=2)].n",
        ".a.list[?(@.w)].n",
        r#".a.list[?(@.v=="2")].n"#,
        ".a[?(@.n)]",
        ".",
        ".a.list[2:1]",
        ".a.list[-4:]",
        r".a.list[?(@.w[0])].n",
        r#".a.list[?(@.n=="x)]")]"#,
        ".a.list[?()].v",
        ".a[*]",
        ".a[:]",
        ".a.list[:].v",
        ".a.list..",
        "...v",
        "..v()",
        ".a 'b'",
        ".a[",
        ".a[x]",
        ".a....b",
        ".a[?(@.n=1)]",
        ".a[?(@.n",
    ];
    let lines: Vec<String> = paths
        .iter()
        .map(|path| format!("{path} → {}", found(path)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    .a.list[0].n → ["x"]
    .a.list[-1].n → ["z"]
    .a.list[5].n → array index out of bounds: index 5, length 3
    .a.list[*].n → ["x","y","z"]
    .a.list[0:2].v → [1,2]
    .a.list[1:].v → [2,3]
    .a.list[:-1].v → [1,2]
    .a.list[0:3:2].v → [1,3]
    .a.list[0,2].v → [1,3]
    .a['list','q'] → [[{"n":"x","v":1},{"n":"y","v":2},{"n":"z","v":3,"w":{"v":4}}],"a'b"]
    .a.b\.c/d → [1]
    .a['b\.c/d'] → [1]
    .a..v → [1,2,3,4]
    .a.*.n → []
    .a.list.n → []
    .absent.deep → []
    .a.list[?(@.n=="y")].v → [2]
    .a.list[?(@.n != 'y')].v → [1,3]
    .a.list[?(@.v>=2)].n → ["y","z"]
    .a.list[?(@.w)].n → ["z"]
    .a.list[?(@.v=="2")].n → incompatible types for comparison: 1 and 2
    .a[?(@.n)] → {"b.c/d":1,"list":[{"n":"x","v":1},{"n":"y","v":2},{"n":"z","v":3,"w":{"v":4}}],"q":"a'b"} is not a list
    . → [{"a":{"b.c/d":1,"list":[{"n":"x","v":1},{"n":"y","v":2},{"n":"z","v":3,"w":{"v":4}}],"q":"a'b"}}]
    .a.list[2:1] → starting index 2 is greater than ending index 1
    .a.list[-4:] → array index out of bounds: index -1, length 3
    .a.list[?(@.w[0])].n → ["z"]
    .a.list[?(@.n=="x)]")] → []
    .a.list[?()].v → [1,2,3]
    .a[*] → {"b.c/d":1,"list":[{"n":"x","v":1},{"n":"y","v":2},{"n":"z","v":3,"w":{"v":4}}],"q":"a'b"} is not a list
    .a[:] → {"b.c/d":1,"list":[{"n":"x","v":1},{"n":"y","v":2},{"n":"z","v":3,"w":{"v":4}}],"q":"a'b"} is not a list
    .a.list[:].v → [1,2,3]
    .a.list.. → [[{"n":"x","v":1},{"n":"y","v":2},{"n":"z","v":3,"w":{"v":4}}],{"n":"x","v":1},{"n":"y","v":2},{"n":"z","v":3,"w":{"v":4}},{"v":4}]
    ...v → [1,2,3,4]
    ..v() → []
    .a 'b' → JSONPath ".a 'b'": ".a 'b'" is no path; paths begin with a dot, such as .metadata.name
    .a[ → JSONPath ".a[": a bracket [ is not closed
    .a[x] → JSONPath ".a[x]": [x] is neither an index, a slice, a filter nor a key in quotes
    .a....b → JSONPath ".a....b": two descents in a row
    .a[?(@.n=1)] → JSONPath ".a[?(@.n=1)]": = is no comparison; these are: ==, !=, <, <=, >, >=
    .a[?(@.n → JSONPath ".a[?(@.n": a bracket [ is not closed
    "#);
}

#[test]
fn a_path_has_a_bound_of_steps_and_of_what_it_may_find() {
    let long = ".a".repeat(65);
    assert!(
        long.parse::<JsonPath>()
            .unwrap_err()
            .to_string()
            .ends_with("more than 64 steps")
    );
    let wide = format!(".a[{}0]", "0,".repeat(64));
    assert!(
        wide.parse::<JsonPath>()
            .unwrap_err()
            .to_string()
            .ends_with("more than 64 steps")
    );
    let empty = format!("..[{}'']", "'',".repeat(63));
    assert!(
        empty
            .parse::<JsonPath>()
            .unwrap_err()
            .to_string()
            .ends_with("more than 64 steps")
    );
    let value = json!([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]);
    // What is reached on several ways is found as often, and counts while it is found.
    for (path, count) in [
        ("['','','']", 3),
        ("['','','']..", 21),
        ("['','','',''].*", 8),
        ("[0,0,0][0:2]", 6),
        ("[0,0,0][?(@)]", 6),
    ] {
        let path: JsonPath = path.parse().unwrap();
        assert_eq!(
            path.find_within(&value, count - 1),
            Err(JsonPathError::TooMany(count - 1))
        );
        assert_eq!(
            path.find_within(&value, count).map(|found| found.len()),
            Ok(count)
        );
    }
    // As is what is looked at: neither a filter nor a descent finds anything here.
    let wide = json!({ "a": vec![0; 2_000] });
    for (path, most) in [
        ("['a','a'][?(@.x)]", 79),
        ("['a','a']..x", 39),
        (".a[?(@.x)]", 39),
    ] {
        let path: JsonPath = path.parse().unwrap();
        assert_eq!(
            path.find_within(&wide, most),
            Err(JsonPathError::TooMany(most))
        );
        assert_eq!(
            path.find_within(&wide, most + 3).map(|found| found.len()),
            Ok(0)
        );
    }
    let path: JsonPath = "..[*]".parse().unwrap();
    assert_eq!(path.find_within(&value, 7), Err(JsonPathError::TooMany(7)));
    assert_eq!(
        path.find_within(&value, 14).map(|found| found.len()),
        Ok(14)
    );
}

#[test]
fn numbers_are_printed_as_go_prints_them() {
    for (number, printed) in [
        (json!(1_000_000), "1000000"),
        (json!(999_999.5), "999999.5"),
        (json!(1_234_567.5), "1.2345675e+06"),
        (json!(2.0), "2"),
        (json!(1e21), "1e+21"),
        (json!(u64::MAX), "1.8446744073709552e+19"),
        (json!(0.0001), "0.0001"),
        (json!(-0.000_012_34), "-1.234e-05"),
    ] {
        assert_eq!(text(&number), printed);
    }
}

#[test]
fn locations_miss_no_value_for_an_error_of_kubectl() {
    let object = json!({
        "map": { "a": 1, "b": { "n": "x" } },
        "list": [{ "n": "x", "v": 1 }, { "v": 2 }, { "n": "y", "v": "3" }],
    });
    let located = |path: &str| {
        let step = |step: &LocationStep| match step {
            LocationStep::Element(index) => format!("/{index}"),
            LocationStep::Member(key) => format!("/{key}"),
        };
        let locations = path.parse::<JsonPath>().unwrap().locations(&object);
        let texts: Vec<String> = locations
            .iter()
            .map(|location| location.iter().map(step).collect())
            .collect();
        texts.join(" ")
    };
    for (path, expected) in [
        (".map[*]", "/map/a /map/b"),
        (".map[:]", ""),
        (".map[::]", ""),
        (".map[:,*]", "/map/a /map/b"),
        (".list[:]", "/list/0 /list/1 /list/2"),
        (".list[*]", "/list/0 /list/1 /list/2"),
        (".map[?(@.n)]", "/map/b"),
        (".list[5]", ""),
        (".list[-5]", ""),
        (".list[-1].n", "/list/2/n"),
        (".list[1:9]", "/list/1 /list/2"),
        (".list[-9:1]", "/list/0"),
        (".list[2:1]", ""),
        (".list[::2]", "/list/0 /list/2"),
        (".list[?(@.n!='x')]", "/list/1 /list/2"),
        (".list[?(@.v>=2)]", "/list/1"),
        (".list[?(@.v=='3')].n", "/list/2/n"),
        ("..n", "/list/0/n /list/2/n /map/b/n"),
        ("['map','map'].a", "/map/a"),
        (".list.n", ""),
    ] {
        assert_eq!(located(path), expected, "{path}");
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        (0..3_u8).prop_map(|number| json!(number)),
        "[ab]".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn path_text() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        (-3..4_i8).prop_map(|index| format!("[{index}]")),
        "[abc]".prop_map(|key| format!(".{key}")),
        Just("[*]".to_owned()),
        Just(".*".to_owned()),
        Just("[0:2]".to_owned()),
        Just("[:]".to_owned()),
        Just("..a".to_owned()),
        Just("..[0]".to_owned()),
        Just("['a','b']".to_owned()),
        Just("[?(@.a)]".to_owned()),
        Just("[?(@.a==1)]".to_owned()),
        Just("[?(@.a!=1)]".to_owned()),
    ];
    prop::collection::vec(step, 1..4).prop_map(|steps| steps.concat())
}

proptest! {
    #[test]
    fn every_value_that_a_path_finds_has_a_location(text in path_text(), value in json_value()) {
        let path: JsonPath = text.parse().unwrap();
        let at = |location: &NodeLocation| {
            location.iter().fold(&value, |value, step| match step {
                LocationStep::Element(index) => &value[*index],
                LocationStep::Member(key) => &value[key],
            })
        };
        let located: Vec<*const Value> =
            path.locations(&value).iter().map(|location| std::ptr::from_ref(at(location))).collect();
        for found in path.find(&value).unwrap_or_default() {
            prop_assert!(located.contains(&std::ptr::from_ref(found)), "{} in {}", found, value);
        }
    }
}
