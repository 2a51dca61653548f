use serde_json::json;

use super::*;
use crate::test_rows::rows;
use crate::{
    Operation, Request, Response,
    health::{Assessment, Health},
    script::{HealthScript, Script},
};

/// What a script of Argo CD says of an empty object.
fn assess(text: &str) -> Assessment {
    let script = HealthScript::compile(text).unwrap();
    script.run(&json!({"kind": "Thing"})).unwrap()
}

/// The message of a script of Argo CD that evaluates an expression to a text.
fn evaluate(expression: &str) -> String {
    let assessment = assess(&format!(
        "return {{status = 'Healthy', message = tostring({expression})}}"
    ));
    assessment.message
}

fn evaluate_for_karmada(expression: &str) -> Result<String, ScriptError> {
    let text = format!("function ReflectStatus(o) return {{text = tostring({expression})}} end");
    let script = Script::compile(Operation::InterpretStatus, &text)?;
    let object = json!({});
    match script.run(&Request::Status { object: &object })? {
        Response::Status(status) => Ok(status["text"].as_str().unwrap().to_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn hostile_scripts_end_in_time() {
    let cases = r"
        while true do end | script took more than
        repeat pcall(function() while true do end end) until false | script took more than
        pcall(function() while true do end end) return {status = 'Healthy'} | script took more than
        local t = {3, 1, 2} table.sort(t, function(a, b) while true do end end)
            | script took more than
        local s = string.rep('a', 200000) return s:find(string.rep('.-', 12) .. 'b')
            | script took more than
        local s = string.rep('a', 900000) for i = 1, 1000000 do s:find('.-.-.-b') end
            | script took more than
        local s, p = string.rep('a', 900000), string.rep('a', 4000) .. 'b' for i = 1,
            1e9 do s:find(p, 1, true) end | script took more than
        local function f() return f() end return f() | stack overflow
        error(setmetatable({}, {__tostring = function() while true do end end}))
            | script took more than
        local t = {} for i = 1, 1e9 do t[i] = {} end | script took more
        local t = {} local ok = pcall(function() for i = 1, 1e9 do t[i] = {} end end)
            error('caught') | script
        local s = 'x' while true do s = s .. s end | more memory
        return string.rep('x', 1e9) | more memory
        local s = string.rep('x', 1000000) return s:gsub('x', s) | more memory
        return table.concat({string.rep('x', 9e6), string.rep('x', 9e6)}) | more memory
        local function f() return 1 + f() end return f() | stack overflow
        local t = setmetatable({}, {}) getmetatable(t).__index = function(t,
            k) return t[k] end return t.x | stack overflow
        local s = string.rep('a', 900000) return s:find(s .. s) | is longer than
        return s:find(string.rep('(', 300)) | script failed
    ";
    for [text, expected] in rows(cases) {
        let started = Instant::now();
        let assessment = assess(text);
        assert!(started.elapsed() < Duration::from_secs(30), "{text}");
        assert_eq!(assessment.health, Health::Unknown, "{text}");
        assert!(
            assessment.message.contains(expected),
            "{text}: {}",
            assessment.message
        );
    }
}

#[test]
fn deeply_nested_texts_do_not_end_the_process() {
    for text in [
        "(",
        "{",
        "f(",
        "not ",
        "- ",
        "a.",
        "if a then ",
        "function f() ",
    ] {
        assert!(
            HealthScript::compile(&text.repeat(20_000)).is_err(),
            "{text}"
        );
    }
    let long = format!("return {}1", "1 + ".repeat(50_000));
    let _ = HealthScript::compile(&long).map(|script| script.run(&json!({})));
}

#[test]
fn unusable_results_are_errors() {
    let cases = r"
        local t = {} t.t = t return t | nested too deep
        local t = {} for i = 1, 500 do t = {t} end return {status = t} | nested too deep
        local t = {1} for i = 1, 40 do t = {t, t} end return {status = t} | too large
        return {status = print} | a function is no JSON
        return {status = 'Healthy', [1] = 2} | both positions and names
        return {status = 'Healthy', x = {[1] = 1, [3] = 3}} | holes
        return {status = 'Healthy', x = {[true] = 1}} | a boolean is no key
        return {status = 'Healthy', x = 0/0} | no number
        return {status = 'Healthy', x = math.huge} | infinite
        return 1 | must return table, but returned number
        return 'x' | but returned string
    ";
    for [text, expected] in rows(cases) {
        let assessment = assess(text);
        assert_eq!(assessment.health, Health::Unknown, "{text}");
        assert!(
            assessment.message.contains(expected),
            "{text}: {}",
            assessment.message
        );
    }
}

#[test]
fn a_long_message_is_cut() {
    let assessment = assess("return {status = 'Degraded', message = string.rep('é', 100000)}");
    assert_eq!(assessment.health, Health::Degraded);
    assert_eq!(assessment.message.len(), 1024);
    assert!(assess("error(string.rep('x', 900000))").message.len() <= 1024);
}

#[test]
fn nothing_reaches_outside() {
    let absent = [
        "io",
        "debug",
        "coroutine",
        "buffer",
        "os.execute",
        "os.getenv",
        "os.exit",
        "os.remove",
        "os.rename",
        "os.tmpname",
        "os.setlocale",
        "gcinfo",
        "arg",
        "vector",
        "bit32",
        "utf8",
    ];
    for name in absent {
        assert_eq!(evaluate(name), "nil", "{name}");
        assert_eq!(evaluate_for_karmada(name).unwrap(), "nil", "{name}");
    }
    let refused = [
        "loadstring('return 1')",
        "load('return 1')",
        "dofile('/etc/passwd')",
        "loadfile('/etc/passwd')",
        "getfenv(1)",
        "setfenv(1, {})",
        "collectgarbage()",
        "newproxy()",
        "module('x')",
        "string.dump(print)",
        "package.loadlib('x', 'y')",
        "require('/etc/passwd')",
        "require('./x')",
        "require('io')",
        "require('debug')",
        "require(nil)",
    ];
    for call in refused {
        assert!(
            assess(&format!(
                "return {{status = 'Healthy', message = tostring({call})}}"
            ))
            .message
            .contains("script failed"),
            "{call}"
        );
    }
}

#[test]
fn karmada_disables_more_functions() {
    let refused = [
        "collectgarbage()",
        "dofile('x')",
        "getfenv()",
        "getmetatable('')",
        "load('x')",
        "loadfile('x')",
        "loadstring('x')",
        "rawequal(1, 1)",
        "rawget({}, 1)",
        "rawset({}, 1, 1)",
        "setfenv(1, {})",
        "setmetatable({}, {})",
        "module('x')",
        "newproxy()",
        "string.gsub('a', 'a', 'b')",
        "('a'):gsub('a', 'b')",
        "string.rep('a', 2)",
        "('a'):rep(2)",
        "string.dump(print)",
        "package.loadlib('a', 'b')",
    ];
    for call in refused {
        let text = evaluate_for_karmada(call).unwrap_err().to_string();
        assert!(
            text.contains("is not available to scripts"),
            "{call}: {text}"
        );
    }
    for call in [
        "('x'):byte()",
        "('x'):find('y')",
        "string.format('%s', 'x')",
        "('x'):lower()",
        "('x'):match('y')",
    ] {
        let long = call
            .replacen("'x'", "s", 1)
            .replacen("'%s'", "s", 1)
            .replacen("(s)", "s", 1);
        let text = format!(
            "(function() local s = 'xxxxxxxxxxxxxxxx' for i = 1, 16 do s = s .. s end return {long} end)()"
        );
        let error = evaluate_for_karmada(&text).unwrap_err().to_string();
        assert!(error.contains("is longer than 1000000"), "{call}: {error}");
    }
}

#[test]
fn a_run_leaves_nothing_behind() {
    let poison = HealthScript::compile(
        "type = nil error = print ipairs = 1 leaked = obj
         local function try(f) pcall(f) end
         try(function() string.len = nil end)
         try(function() getmetatable('').__index = {} end)
         try(function() getmetatable('').__index.upper = nil end)
         try(function() setmetatable(string, {}) end)
         try(function() table.insert = nil end)
         try(function() math.max = nil end)
         try(function() rawset(os, 'time', nil) end)
         try(function() rawset(string, 'rep', nil) end)
         try(function() package.loaded.os = nil end)
         try(function() require('kube').resourceAdd = nil end)
         try(function() _G.string = nil end)
         math.randomseed(42)
         _G.leaked_too = 1
         return {status = 'Degraded'}",
    )
    .unwrap();
    let check = HealthScript::compile(
        "local fine = type('') == 'string' and type(error) == 'function' and type(ipairs) == 'function'
           and leaked == nil and leaked_too == nil and ('x'):upper() == 'X' and string.len('ab') == 2 and table.insert and math.max
           and os.time and ('x'):rep(2) == 'xx' and require('os') and require('kube').resourceAdd and _G.string == string
         return {status = fine and 'Healthy' or 'Degraded', message = tostring(math.random())}",
    )
    .unwrap();
    let fresh = std::thread::spawn({
        let check = check.clone();
        move || check.run(&json!({}))
    });
    let fresh = fresh.join().unwrap();
    for _ in 0..3 {
        assert_eq!(poison.run(&json!({})).unwrap().health, Health::Degraded);
        let warm = check.run(&json!({}));
        assert_eq!(warm.as_ref().unwrap().health, Health::Healthy);
        assert_eq!(warm, fresh);
    }
}

#[test]
fn globals_and_upvalues_are_new_in_each_run() {
    let script = HealthScript::compile(
        "count = (count or 0) + 1
         local function next_count() count = count + 1 return count end
         return {status = 'Healthy', message = tostring(next_count()) .. tostring(_G.count)}",
    )
    .unwrap();
    for _ in 0..3 {
        assert_eq!(script.run(&json!({})).unwrap().message, "22");
    }
}

#[test]
fn a_state_is_thrown_away_after_a_bound_was_reached_and_the_next_run_works() {
    for hostile in ["while true do end", "return string.rep('x', 1e9)"] {
        let _ = assess(hostile);
        assert_eq!(evaluate("1 + 1"), "2");
    }
}

#[test]
fn garbage_of_earlier_runs_takes_no_memory_from_later_ones() {
    let script = HealthScript::compile(
        "local t = {} for i = 1, 100 do t[i] = string.rep('x', 100000) .. i end return {status = 'Healthy'}",
    )
    .unwrap();
    for _ in 0..20 {
        assert_eq!(script.run(&json!({})).unwrap().health, Health::Healthy);
    }
}

#[test]
fn a_large_object_takes_no_memory_from_the_script_and_a_giant_one_is_refused() {
    let script =
        HealthScript::compile("return {status = 'Healthy', message = tostring(#obj.list)}")
            .unwrap();
    let large = json!({"list": vec![json!({"a": "0123456789"}); 100_000]});
    assert_eq!(script.run(&large).unwrap().message, "100000");
    let giant = json!({"list": vec![json!([1, 2, 3, 4]); 500_000]});
    assert_eq!(
        script.run(&giant).unwrap().message,
        "object is too large for a script"
    );
}

#[test]
fn the_dialect_is_that_of_gopher_lua() {
    let cases = [
        ("6 / 2", "3"),
        ("2 ^ 3", "8"),
        ("10 ^ 15", "1000000000000000"),
        ("1 / 3", "0.3333333333333333"),
        ("2 ^ 1024", "inf"),
        (r#""a\.b""#, "a.b"),
        (r#""\x41""#, "x41"),
        ("table.getn({1, 2})", "2"),
        ("(unpack({7, 8}))", "7"),
        ("math.pow(2, 3)", "8"),
        ("math.mod(7, 3)", "1"),
        ("string.format('%d', 3.5)", "3"),
        (
            "string.format('%s %s %s %d%%', nil, true, 'x', 5)",
            "nil true x 5%",
        ),
        ("string.format('%5s|%-5s|', true, nil)", " true|nil  |"),
        ("string.format('%.2f %q', 1.234, 'x')", "1.23 \"x\""),
        ("string.gfind('a1', '%d')()", "1"),
        ("string.gmatch('a1', '%d')()", "1"),
        ("(string.gsub('aXb', 'X', '-'))", "a-b"),
        ("('abc'):sub(2, -1)", "bc"),
        ("os.date('%F', 0)", "1970-01-01"),
        (
            "os.date('!%Y-%m-%dT%H:%M:%SZ', 86399)",
            "1970-01-01T23:59:59Z",
        ),
        ("os.date('%c', 0)", "01 Jan 70 00:00 UTC"),
        (
            "os.date('%a %A %b %B %P %Z %z %w %j %% %e', 0)",
            "Thu Thursday Jan January am UTC +0000 4 001 % %e",
        ),
        ("os.date('*t', 3600).hour", "1"),
        (
            "os.time({year = 1970, month = 1, day = 2, hour = 0})",
            "86400",
        ),
        ("os.difftime(3, 1)", "2"),
        ("type(os.time())", "number"),
        ("type(os.clock())", "number"),
        ("#os.date()", "19"),
        (
            "require('os').time == os.time and require('string') == string and require('table') == table and require('math') == math",
            "true",
        ),
        ("'10' + 1", "11"),
        ("1 .. ''", "1"),
        ("#{1, 2, nil}", "2"),
        ("select('#', 1, nil)", "2"),
        ("(pcall(error))", "false"),
        ("select('#', print('nothing'))", "0"),
        ("next({})", "nil"),
        ("tostring(nil) .. tostring(1e100)", "nil1e+100"),
    ];
    for (expression, expected) in cases {
        assert_eq!(evaluate(expression), expected, "{expression}");
    }
}

#[test]
fn an_object_reaches_a_script_as_gopher_luas_hosts_convert_it() {
    let script = HealthScript::compile(
        "local keys = 0 for _ in pairs(obj) do keys = keys + 1 end
         return {status = 'Healthy', message = table.concat({
           tostring(obj.null), tostring(obj.flag), tostring(obj.whole), tostring(obj.half), obj.text, tostring(#obj.list),
           tostring(obj.list[2]), tostring(next(obj.empty)), tostring(next(obj.none)), tostring(keys), tostring(obj.whole == 3)}, ' ')}",
    )
    .unwrap();
    let object = json!({
        "null": null, "flag": false, "whole": 3, "half": 0.5, "text": "é", "list": [1, null, "b"], "empty": {}, "none": []
    });
    assert_eq!(
        script.run(&object).unwrap().message,
        "nil false 3 0.5 é 2 b nil nil 7 true"
    );
}

#[test]
fn an_error_names_the_line_and_has_no_traceback() {
    let assessment = assess("\n\nreturn obj.status.phase");
    assert_eq!(
        assessment.message,
        "script failed: script:3: attempt to index nil with 'phase'"
    );
}

#[test]
fn states_are_kept_by_thread_and_answers_are_the_same_on_all() {
    let script = HealthScript::compile(
        "local s = '' for k, v in pairs(obj) do s = s .. k .. v end return {status = 'Healthy', message = s}",
    )
    .unwrap();
    let object = json!({"a": 1, "b": "x", "c": 2.5, "dd": "y", "e": 9});
    let expected = script.run(&object);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(script.run(&object), expected);
                }
            });
        }
    });
}

#[test]
fn more_scripts_than_a_state_keeps_can_run() {
    for number in 0..=MAX_LOADED {
        assert_eq!(evaluate(&number.to_string()), number.to_string());
    }
}

mod member_order;
