//! Golden errors.

use crate::parse;

/// Each text, what is marked in it, and the message.
fn report(texts: &[&str]) -> String {
    let mut lines = Vec::new();
    for text in texts {
        let error = parse(text).unwrap_err();
        let width = text[error.span.clone()].chars().count().max(1);
        let marks = " ".repeat(error.column - 1) + &"^".repeat(width);
        lines.push(format!("{text}\n{marks}\n{error}\n"));
    }
    lines.join("\n")
}

#[test]
fn errors_of_negations_and_words_have_positions() {
    insta::assert_snapshot!(report(&[
        "web -",
        "web NOT",
        "--web",
        "NOT -web",
        "-NOT web",
        "kind:Pod OR kind:Deployment",
        "a AND b",
        "web \"shop",
        "\"web\"shop",
        "5\"disk",
        r#""a\nb""#,
        "\"\"",
        "ä heath:Degraded",
        "-lable:app=\"x y\"",
        "\"a\\ä\"",
    ]));
}

#[test]
fn errors_of_values_have_positions() {
    insta::assert_snapshot!(report(&[
        "health:",
        "health: Degraded",
        "kind:Pod,,deploy",
        "kind:Pod,",
        "name:\"\"",
        "name:a\"b\"",
        "health:Degraded,sick",
        "age:1d",
        "age:<1.5h",
        "age:<1h,>1d",
        "ns:Web",
        "ns:web,-x",
        "cluster:\"a\tb\"",
        "label:app=",
        "label:app=a,",
        "label:app,tier",
        "label:app=a,tier=b",
        "label:\"a b=c\"",
        "label:-app",
        "label:app=a/b",
        "label:app=web,ä",
        "label:app>x",
        "label:!app=x",
        "uses:db",
        "uses:secret/web/",
        "uses:secret/web/db/x",
        "uses:secret/Web/db",
    ]));
}
