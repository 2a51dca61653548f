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
            parsed.find(&pods["items"][0], &Fuel::unbounded()).unwrap(),
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
            .and_then(|path| Ok(json!(path.find(&object, &Fuel::unbounded())?)));
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
}

/// The steps that a path takes, and what it finds. With one step less it finds nothing at all.
fn steps_of(path: &str, value: &Value) -> (u64, Result<usize, JsonPathError>) {
    let path: JsonPath = path.parse().unwrap();
    let fuel = Fuel::new(1 << 40);
    let found = path.find(value, &fuel).map(|found| found.len());
    let less = Fuel::new(fuel.used() - 1);
    assert_eq!(
        path.find(value, &less),
        Err(JsonPathError::OutOfFuel(OutOfFuel))
    );
    (fuel.used(), found)
}

#[test]
fn a_path_takes_a_step_for_all_that_it_finds_and_looks_at() {
    let value = json!([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]);
    // What is reached on several ways takes as many steps as there are ways.
    for (path, steps, count) in [
        ("[*]", 2, 2),
        ("['','','']", 6, 3),
        ("['','','']..", 6 + 3 * (15 + 7), 21),
        ("['','','',''].*", 8 + 8, 8),
        ("[0,0,0][0:2]", 9 + 6, 6),
        ("[0,0,0][?(@)]", 9 + 12, 6),
        ("..[*]", 15 + 7 + 14, 14),
    ] {
        assert_eq!(steps_of(path, &value), (steps, Ok(count)), "{path}");
    }
    // As does what is looked at: neither a filter nor a descent finds anything here.
    let wide = json!({ "a": vec![0; 2_000] });
    for (path, steps) in [
        (".a[?(@.x)]", 2 + 2 * 2_000),
        ("['a','a'][?(@.x)]", 8 + 4 * 2_000),
        ("['a','a']..x", 8 + 2 * (2_000 + 3)),
    ] {
        let (taken, found) = steps_of(path, &wide);
        assert_eq!(found, Ok(0), "{path}");
        assert!(taken.abs_diff(steps) < 10, "{path}: {taken}");
    }
}

#[test]
fn unions_of_unions_take_steps_for_each_time_that_they_follow_a_value() {
    let path = format!(".a{}", "['x','x']".repeat(12));
    let mut value = json!(1);
    for _ in 0..12 {
        value = json!({ "x": value });
    }
    let value = json!({ "a": value });
    let (taken, found) = steps_of(&path, &value);
    assert_eq!(found, Ok(1 << 12));
    assert_eq!(taken, 1 + 3 * ((1 << 13) - 2));
}

#[test]
fn a_selection_takes_no_more_steps_for_what_is_nested_or_selected_again() {
    let mut value = json!({ "x": 1 });
    for _ in 0..100 {
        value = json!({ "a": value, "b": [1, 2, 3] });
    }
    let steps = |path: &str| {
        let fuel = Fuel::new(1 << 40);
        path.parse::<JsonPath>()
            .unwrap()
            .select(&value, &fuel)
            .unwrap();
        fuel.used()
    };
    let once = steps("..x");
    assert!(once < 1_000, "{once}");
    assert!(steps("..a..a..x") < 6 * once, "{}", steps("..a..a..x"));
    assert!(steps("['a','a','a','a']..x") < 2 * once);
}

#[test]
fn long_texts_count_by_their_bytes() {
    let long = "x".repeat(160_000);
    let value = json!({ "list": [{ "n": long }, { "n": [long] }] });
    let (taken, _) = steps_of(
        &format!(".list[?(@.n=='{long}')]"),
        &json!({ "list": [{ "n": long }] }),
    );
    assert!(taken > 10_000, "{taken}");
    // A comparison that fails quotes what it has compared, and so does a step into something that
    // is no list.
    let (taken, found) = steps_of(".list[?(@.n==1)]", &value);
    assert!(found.is_err() && taken > 10_000, "{taken}");
    let (taken, found) = steps_of(".list[1][*]", &value);
    assert!(found.is_err() && taken > 10_000, "{taken}");
    let fuel = Fuel::new(9_999);
    assert_eq!(text_within(&value, &fuel), Err(OutOfFuel));
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

/// Where a value lies, as a path with slashes.
fn place(within: &Value, value: &Value) -> Option<String> {
    if std::ptr::eq(within, value) {
        return Some(String::new());
    }
    let items = within.as_array().into_iter().flatten().enumerate();
    let mut items = items.map(|(index, item)| (index.to_string(), item));
    let of_items = items.find_map(|(index, item)| Some(format!("/{index}{}", place(item, value)?)));
    let mut members = within.as_object().into_iter().flatten();
    of_items.or_else(|| {
        members.find_map(|(key, member)| Some(format!("/{key}{}", place(member, value)?)))
    })
}

#[test]
fn a_selection_misses_no_value_for_an_error_of_kubectl() {
    let object = json!({
        "map": { "a": 1, "b": { "n": "x" } },
        "list": [{ "n": "x", "v": 1 }, { "v": 2 }, { "n": "y", "v": "3" }],
    });
    let located = |path: &str| {
        let path: JsonPath = path.parse().unwrap();
        let selected = path.select(&object, &Fuel::unbounded()).unwrap();
        let mut places: Vec<String> = selected
            .iter()
            .map(|found| place(&object, found).unwrap())
            .collect();
        places.sort_unstable();
        places.join(" ")
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
    fn every_value_that_a_path_finds_is_selected_once(text in path_text(), value in json_value()) {
        let path: JsonPath = text.parse().unwrap();
        let mut selected: Vec<*const Value> = path
            .select(&value, &Fuel::unbounded())
            .unwrap()
            .into_iter()
            .map(std::ptr::from_ref)
            .collect();
        for found in path.find(&value, &Fuel::unbounded()).unwrap_or_default() {
            prop_assert!(selected.contains(&std::ptr::from_ref(found)), "{} in {}", found, value);
        }
        let count = selected.len();
        selected.sort_unstable();
        selected.dedup();
        prop_assert_eq!(selected.len(), count);
    }
}
