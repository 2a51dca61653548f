use super::*;

fn reason(text: &str) -> String {
    to_luau(text).unwrap_err().to_string()
}

#[test]
fn a_script_without_goto_stays_what_it_is() {
    let text = "local s = 'goto x' -- goto y ::z::\nlocal t = [==[ ::a:: goto a ]==] --[[ goto b ]] return t.go";
    assert!(matches!(to_luau(text).unwrap(), Cow::Borrowed(_)));
}

#[test]
fn a_goto_to_the_end_of_its_loop_becomes_continue() {
    let cases = [
        (
            "for _, x in ipairs(l) do if x then goto continue end f(x) ::continue:: end",
            "for _, x in ipairs(l) do if x then do continue end end f(x)  end",
        ),
        (
            "while a do goto c; b() ::c:: ; end",
            "while a do do continue end; b()  ; end",
        ),
        (
            "repeat if a then goto c end b() ::c:: until d",
            "repeat if a then do continue end end b()  until d",
        ),
        // In an inner block that is last, and two labels side by side.
        (
            "for i = 1, 2 do if a then if b then goto c end goto d ::c:: ::d:: end end",
            "for i = 1, 2 do if a then if b then do continue end end do continue end   end end",
        ),
        // The same name in several loops, and a loop and a function inside the loop.
        (
            "for i = 1, 2 do while a do goto c ::c:: end f(function() return 1 end) if b then goto c end ::c:: end",
            "for i = 1, 2 do while a do do continue end  end f(function() return 1 end) if b then do continue end end  end",
        ),
        // A function in the head of a loop.
        (
            "while (function() do end return a end)() do goto c ::c:: end",
            "while (function() do end return a end)() do do continue end  end",
        ),
        (
            "for i = 1, 2 do a() ::unused:: b() end",
            "for i = 1, 2 do a()  b() end",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(to_luau(text).unwrap(), expected);
    }
}

#[test]
fn lines_stay_what_they_are() {
    let text = "for i = 1, 2 do\n  goto\n    next -- x\n  ::\n  next\n  ::\nend\nf()";
    let luau = to_luau(text).unwrap();
    assert_eq!(luau.lines().count(), text.lines().count());
    assert_eq!(luau.lines().last(), Some("f()"));
}

#[test]
fn any_other_goto_is_refused_with_line_and_reason() {
    let end_of_loop = "the label is not at the end of the body of a loop";
    let other_loop = "the label belongs to another loop";
    let missing = "there is no such label in the blocks around it";
    let cases = [
        ("do\n goto x\n end", 2, missing),
        ("::top::\ngoto top", 2, end_of_loop),
        (
            "for i = 1, 2 do\n goto x\n f()\n ::x::\n g()\n end",
            2,
            end_of_loop,
        ),
        (
            "for i = 1, 2 do\n for j = 1, 2 do\n\n goto x\n end\n ::x::\n end",
            4,
            other_loop,
        ),
        (
            "for i = 1, 2 do\n f(function() goto x end)\n ::x::\n end",
            2,
            other_loop,
        ),
        (
            "for i = 1, 2 do\n if a then ::x:: end\n goto x end",
            3,
            missing,
        ),
        (
            "for i = 1, 2 do if a then goto x ::x:: else b() end end",
            1,
            end_of_loop,
        ),
        ("while true do ::again:: goto again end", 1, end_of_loop),
        ("do goto x ::x:: end", 1, end_of_loop),
    ];
    for (text, line, why) in cases {
        let text = reason(text);
        assert!(text.starts_with(&format!("line {line}: goto ")), "{text}");
        assert!(text.ends_with(why), "{text}");
    }
}

#[test]
fn escapes_that_only_luau_has_are_letters() {
    assert_eq!(
        to_luau(r#"return "\x41\u{41}\z \\x \n", '\x'"#).unwrap(),
        r#"return "x41u{41}z \\x \n", 'x'"#
    );
}

#[test]
fn a_script_with_countless_gotos_is_refused() {
    let text = "goto x ".repeat(30_000);
    assert!(reason(&text).contains("too many"));
}

proptest::proptest! {
    #[test]
    fn any_text_gets_an_answer(text in "(goto|::|end|do|for|if|else|until|repeat|function|\"|\\\\|\\[=|\\[\\[|--|é|[a-z \n]){0,60}") {
        let _ = to_luau(&text);
    }
}

#[test]
fn what_a_loop_iterates_over_is_an_argument_and_pairs_stays_what_it_is() {
    let cases = [
        ("for k in t do end", "for k in __iterate(t) do end"),
        (
            "for k, v in a.b[c], d do f() end while x do end",
            "for k, v in __iterate(a.b[c], d) do f() end while x do end",
        ),
        (
            "for k in (function() for i in s do if i then break end end return u end)() do end",
            "for k in __iterate((function() for i in __iterate(s) do if i then break end end return u end)()) do end",
        ),
        (
            "for k in t do\n goto c -- x\n ::c:: end",
            "for k in __iterate(t) do\n do continue end -- x\n  end",
        ),
        (r#"for k in f"\x" -- y"#, r#"for k in f"x" -- y"#),
        (
            "for k in t -- the text\n do end",
            "for k in __iterate(t) -- the text\n do end",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(to_luau(text).unwrap(), expected);
    }
    for text in [
        "for k, v in pairs(t) do end",
        "for k, v in ipairs(t.x) do end",
        "for k, v in next, t do end",
        "for i = 1, 2 do end",
        "for k in do end",
        "for k in if a then b else c do end",
    ] {
        assert_eq!(to_luau(text).unwrap(), text);
    }
}

#[test]
fn only_scripts_with_pairs_next_or_a_loop_over_a_table_visit_members() {
    for (text, expected) in [
        ("for k in pairs(t) do end", true),
        ("local p = _G.pairs", true),
        ("return next(t) == nil", true),
        ("for k in t do end", true),
        ("for k, v in ipairs(t) do end -- pairs", false),
        ("for i = 1, #t do end return 'pairs'", false),
    ] {
        assert_eq!(visits_members(text), expected, "{text}");
    }
}
