//! The order in which scripts visit tables.

use serde_json::{Value, json};

use super::*;
use crate::test_rows::rows;

/// The keys in the order of three kinds of loops, which is to be one order.
const KEYS: &str = "
    local function keys_of(t)
      local by_pairs, by_next, by_for = {}, {}, {}
      for k, v in pairs(t) do assert(t[k] == v) by_pairs[#by_pairs + 1] = tostring(k) end
      local k, v = next(t)
      while k ~= nil do
        assert(t[k] == v) by_next[#by_next + 1] = tostring(k)
        k, v = next(t, k)
      end
      for k, v in t do assert(t[k] == v) by_for[#by_for + 1] = tostring(k) end
      for k, v in next, t do assert(t[k] == v) end
      local text = table.concat(by_pairs, ' ')
      assert(text == table.concat(by_next, ' '), 'next: ' .. table.concat(by_next, ' '))
      assert(text == table.concat(by_for, ' '), 'for: ' .. table.concat(by_for, ' '))
      return text
    end ";

fn message(body: &str, object: &Value) -> String {
    let script = HealthScript::compile(&format!("{KEYS}{body}")).unwrap();
    script.run(object).unwrap().message
}

fn keys_of(table: &str, object: &Value) -> String {
    let body = format!("local t = {table} return {{status = 'Healthy', message = keys_of(t)}}");
    message(&body, object)
}

#[test]
fn members_of_an_object_are_visited_in_the_order_of_the_document() {
    let object = json!({
        "zeta": 1, "alpha": {"y": true, "x": [{"q": 1, "b": 2, "m": 3}], "none": null, "d": 0}, "mid": "", "beta": 2
    });
    let cases = [
        ("obj", "zeta alpha mid beta"),
        ("obj.alpha", "y x d"),
        ("obj.alpha.x", "1"),
        ("obj.alpha.x[1]", "q b m"),
    ];
    for (table, expected) in cases {
        assert_eq!(keys_of(table, &object), expected, "{table}");
    }
}

/// Numbers that follow each other, in no order that a sort or a hash would give.
fn scattered_names(count: u32) -> Vec<String> {
    let scattered = (1..=count).map(|number| number.wrapping_mul(2_654_435_761) % 1_000_003);
    scattered.map(|number| format!("key-{number}")).collect()
}

#[test]
fn a_thousand_members_and_those_below_them_have_the_order_of_the_document() {
    let names = scattered_names(1000);
    let inner: serde_json::Map<String, Value> = names
        .iter()
        .rev()
        .map(|name| (name.clone(), json!(1)))
        .collect();
    let object: Value = names
        .iter()
        .map(|name| (name.clone(), Value::Object(inner.clone())))
        .collect();
    let body = |table: &str| {
        format!(
            "local t, names = {table}, {{}} for name in pairs(t) do names[#names + 1] = name end
             return {{status = 'Healthy', message = tostring(table.concat(names, ' ') == obj.expected)}}"
        )
    };
    let with = |expected: String, mut object: Value| {
        object["expected"] = expected.into();
        object
    };
    let all = format!("{} expected", names.join(" "));
    assert_eq!(message(&body("obj"), &with(all, object.clone())), "true");
    let reversed: Vec<&str> = names.iter().rev().map(String::as_str).collect();
    let last = format!("obj[{:?}]", names[999]);
    assert_eq!(
        message(&body(&last), &with(reversed.join(" "), object)),
        "true"
    );
}

#[test]
fn names_of_the_script_come_after_those_of_the_document_in_the_order_of_names() {
    let object = json!({"labels": {"z": 1, "b": 2, "m": 3}, "sorted": {"b": 1, "d": 2, "z": 3}, "one": {"z": 1}, "none": {}});
    let cases = r"
        {zeta = 1, mid = 2, alpha = 3, ['10'] = 4, ['9'] = 5} | 10 9 alpha mid zeta
        obj.labels t.q = 1 t.a = 1 | z b m a q
        obj.sorted t.c = 1 | b d z c
        obj.one t.c = 1 | z c
        obj.none t.c = 1 t.b = 1 | b c
        obj.labels t.z = nil t.m = 'x' | b m
        obj.labels t.z = nil t.z = 1 | z b m
        obj.labels t.a = 1 t.a = nil | z b m
        obj.labels t[1] = 1 t[0] = 1 t[true] = 1 t.a = 1 | 1 0 z b m a true
        {} |
        {only = 1} | only
    ";
    for [table, expected] in rows(cases) {
        assert_eq!(keys_of(table, &object), expected, "{table}");
    }
}

#[test]
fn positions_come_first_then_numbers_names_and_booleans() {
    let cases = [
        ("{7, 8, 9}", "1 2 3"),
        (
            "{} for i = 40, 1, -1 do t[i] = i end",
            &*(1..=40)
                .map(|i| i.to_string())
                .collect::<Vec<_>>()
                .join(" "),
        ),
        (
            "{[3] = 1, [1] = 1, [-2] = 1, [0.5] = 1, [1e9] = 1}",
            "1 -2 0.5 3 1000000000",
        ),
        (
            "{'x', b = 1, [true] = 1, a = 1, [false] = 1, 'y', [0] = 1}",
            "1 2 0 a b false true",
        ),
        ("{1, 2, 3, 4} t[2] = nil", "1 3 4"),
        (
            "{a = 1, b = 1, c = 1, d = 1} t.a = nil t.b = nil t.c = nil t.d = nil t[2] = 1 t[1] = 1 t[3] = 1",
            "1 2 3",
        ),
    ];
    for (table, expected) in cases {
        assert_eq!(keys_of(table, &json!({})), expected, "{table}");
    }
}

#[test]
fn a_script_may_remove_and_add_members_while_it_visits_them() {
    let object = json!({"m": {"z": 1, "b": 2, "m": 3, "a": 4, "k": 5}});
    let visited = |body: &str| {
        let text = format!(
            "local t, seen = obj.m, {{}} {body} return {{status = 'Healthy', message = table.concat(seen, ' ') .. ' / ' .. keys_of(t)}}"
        );
        message(&text, &object)
    };
    let cases = [
        (
            "for k in pairs(t) do seen[#seen + 1] = k t[k] = nil end",
            "z b m a k / ",
        ),
        (
            "for k in t do seen[#seen + 1] = k t[k] = nil end",
            "z b m a k / ",
        ),
        (
            "for k in next, t do seen[#seen + 1] = k t[k] = nil end",
            "z b m a k / ",
        ),
        (
            "for k in pairs(t) do seen[#seen + 1] = k t.m = nil t.k = nil end",
            "z b a / z b a",
        ),
        (
            "for k in pairs(t) do seen[#seen + 1] = k t[k .. '2'] = 1 end",
            "z b m a k / z b m a k a2 b2 k2 m2 z2",
        ),
        // A walk that was left, and another one while one goes on.
        (
            "for k in next, t do seen[#seen + 1] = k break end for k in next, t do seen[#seen + 1] = k end",
            "z z b m a k / z b m a k",
        ),
        (
            "for k in next, t do for q in next, t do if q == 'a' then break end end seen[#seen + 1] = k end",
            "z b m a k / z b m a k",
        ),
        (
            "for k in pairs(t) do for q in pairs(t) do if q == 'b' then break end end seen[#seen + 1] = k end",
            "z b m a k / z b m a k",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(visited(body), expected, "{body}");
    }
}

#[test]
fn what_is_no_table_is_refused_as_by_the_engine() {
    let cases = r"
        pairs(nil) | script:1: invalid argument #1 to 'pairs' (table expected, got nil)
        next('x') | script:1: invalid argument #1 to 'next' (table expected, got string)
        next({a = 1, b = 2}, 'c') | script:1: invalid key to 'next'
    ";
    for [call, expected] in rows(cases) {
        let text = assess(&format!("return {{status = 'Healthy', message = {call}}}")).message;
        assert_eq!(text, format!("script failed: {expected}"));
    }
    let text = assess("for k in nil do end").message;
    assert!(
        text.contains("attempt to iterate over a nil value"),
        "{text}"
    );
    let own = "setmetatable({}, {__iter = function() return next, {q = 1} end})";
    let text = assess(&format!(
        "for k in {own} do return {{status = 'Healthy', message = k}} end"
    ));
    assert_eq!(text.message, "q");
}

#[test]
fn results_of_karmadas_library_and_several_arguments_have_an_order_too() {
    let text = "function Retain(desired, observed)
        local kube, names = require('kube'), {}
        for k in pairs(observed) do names[#names + 1] = k end
        for k in pairs(desired) do names[#names + 1] = k end
        for _, d in pairs(kube.getPodDependencies(desired.template, 'x')) do for k in pairs(d) do names[#names + 1] = k end end
        desired.names = table.concat(names, ' ')
        return desired
    end";
    let script = Script::compile(Operation::Retain, text).unwrap();
    let desired = json!({"kind": "Thing", "apiVersion": "v1", "template": {"spec": {"serviceAccountName": "s"}}});
    let observed = json!({"status": 1, "kind": "Thing"});
    let request = Request::Retain {
        desired: &desired,
        observed: &observed,
    };
    let Response::Retained(retained) = script.run(&request).unwrap() else {
        panic!("no object")
    };
    assert_eq!(
        retained["names"],
        "status kind kind apiVersion template apiVersion kind namespace name"
    );
}

#[test]
fn the_bounds_hold_for_loops_over_large_tables() {
    let object = |members: u32| {
        let names = scattered_names(members).into_iter();
        let wide: Value = names.map(|name| (name, json!(1))).collect();
        json!({"wide": wide})
    };
    let count = "local n = 0 for k in pairs(obj.wide) do n = n + 1 end ";
    let once = format!("{count} return {{status = 'Healthy', message = tostring(n)}}");
    // Within a second on a busy machine, too, without optimizations.
    assert_eq!(message(&once, &object(6_000)), "6000");
    let often = format!("while true do {count} end");
    assert!(message(&often, &object(60_000)).contains("script took more than"));
    let text = "local t = {} for i = 1, 30000 do t['k' .. i] = i end while true do local s = {} for i = 1, 9999 do s[i] = pairs(t) end end";
    assert!(message(text, &json!({})).contains("script took more"));
}

#[test]
fn the_sequence_of_a_table_is_no_metatable_to_a_script() {
    let object = json!({"z": 1, "a": {"q": 1, "b": 2}});
    let cases = r"
        getmetatable(obj) == nil and getmetatable(obj.a) == nil | true
        getmetatable(setmetatable(obj.a, {__index = function(_, k) return k .. '!' end})) ~= nil
            | true
        setmetatable(obj.a, {__index = function(_, k) return k .. '!' end}).x | x!
        rawget(obj, 'names') == nil and obj.names == nil and obj.places == nil | true
        getmetatable('').__index == string | true
    ";
    for [expression, expected] in rows(cases) {
        let body = format!("return {{status = 'Healthy', message = tostring({expression})}}");
        assert_eq!(message(&body, &object), expected, "{expression}");
    }
}

#[test]
fn objects_of_countless_sequences_are_visited_and_forgotten() {
    let script = HealthScript::compile(&format!(
        "{KEYS} return {{status = 'Healthy', message = keys_of(obj.m)}}"
    ))
    .unwrap();
    let text = "n".repeat(300);
    for number in 0..9000 {
        let (one, other) = (format!("z{number}{text}"), format!("a{number}"));
        let object = json!({"m": {one.as_str(): 1, other.as_str(): 2}});
        assert_eq!(
            script.run(&object).unwrap().message,
            format!("{one} {other}")
        );
    }
}

#[test]
fn an_object_of_very_many_sequences_has_all_of_them() {
    let items: Vec<Value> = (0..70_000)
        .map(|number| json!({format!("z{number}"): 1, "a": 2}))
        .collect();
    let object = json!({ "items": items });
    assert_eq!(keys_of("obj.items[69999]", &object), "z69998 a");
    let few = json!({"z": 1, "a": 2});
    assert_eq!(keys_of("obj", &few), "z a");
}
