use serde_json::json;

use super::*;

async fn contents(text: &str) -> Result<Vec<Value>, DocumentError> {
    let mut stream = text.as_bytes();
    let documents = DocumentReader::new(&mut stream)
        .objects(&["-".to_owned()], false)
        .await?;
    Ok(documents
        .into_iter()
        .map(|document| document.content)
        .collect())
}

#[tokio::test]
async fn a_source_has_several_documents_and_empty_ones_do_not_count() {
    let text = "\u{feff}---\na: 1\n---\n# nothing\n---\nnull\n---\nb: 2\n...\n";
    assert_eq!(
        contents(text).await.unwrap(),
        [json!({"a": 1}), json!({"b": 2})]
    );
    assert_eq!(
        contents("{\"a\": 1}\n{\"b\": 2}").await.unwrap(),
        [json!({"a": 1}), json!({"b": 2})]
    );
    assert_eq!(contents("{a: 1}").await.unwrap(), [json!({"a": 1})]);
    assert_eq!(contents("[1, {}]").await.unwrap(), [json!([1, {}])]);
    assert_eq!(contents("[a, b]").await.unwrap(), [json!(["a", "b"])]);
    assert_eq!(contents("").await.unwrap(), [json!(null); 0]);
}

#[tokio::test]
async fn a_list_counts_as_its_items() {
    let list = "
apiVersion: v1
kind: List
items:
- {apiVersion: apps/v1, kind: Deployment}
- {apiVersion: v1, kind: Pod}
---
apiVersion: apps/v1
kind: DeploymentList
items:
- metadata: {name: a}
";
    assert_eq!(
        contents(list).await.unwrap(),
        [
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            json!({"apiVersion": "v1", "kind": "Pod"}),
            json!({"metadata": {"name": "a"}, "apiVersion": "apps/v1", "kind": "Deployment"}),
        ]
    );
    let no_list = json!({"kind": "AccessList", "spec": {"items": []}});
    assert_eq!(contents(&no_list.to_string()).await.unwrap(), [no_list]);
}

#[tokio::test]
async fn a_text_in_quotes_may_continue_at_the_indentation_of_its_key() {
    for text in [
        "a:\n  - b: \"one\n    two\"\n    c: 1\n",
        "a:\n- b: 'one\n  two'\n  c: 1\n",
        "a:\n  - b: \"one\ntwo\"\n    c: 1\n",
    ] {
        let expected = json!({"a": [{"b": "one two", "c": 1}]});
        assert_eq!(contents(text).await.unwrap(), [expected], "{text:?}");
    }
}

#[tokio::test]
async fn yaml_is_read_as_kubectl_reads_it() {
    let text = "mode: 0644\ntwice: 1\ntwice: 2\nquoted: \"0644\"\nat: 2026-01-02T03:04:05Z\non: yes\nbase: &b {x: 1}\nmerged: {<<: *b, y: 2}\n";
    assert_eq!(
        contents(text).await.unwrap(),
        [json!({
            "mode": 420, "twice": 2, "quoted": "0644", "at": "2026-01-02T03:04:05Z", "on": true,
            "base": {"x": 1}, "merged": {"x": 1, "y": 2},
        })]
    );
}

#[tokio::test]
async fn a_number_without_a_fraction_is_an_integer() {
    let expected = json!({"whole": 3, "power": [1000], "zero": 0, "half": 0.5, "large": 1e20});
    for text in [
        "{\"whole\": 3.0, \"power\": [1e3], \"zero\": -0.0, \"half\": 0.5, \"large\": 1e20}",
        "whole: 3.0\npower: [1e3]\nzero: -0.0\nhalf: .5\nlarge: 1e20\n",
    ] {
        assert_eq!(
            contents(text).await.unwrap(),
            std::slice::from_ref(&expected),
            "{text}"
        );
    }
}

#[tokio::test]
async fn hostile_sources_are_errors() {
    for (text, problem) in [
        ("a: [", "error parsing STDIN"),
        ("a: b: c", "error parsing STDIN"),
        (&"- ".repeat(2_000), "error parsing STDIN"),
        (&"[".repeat(200_000), "error parsing STDIN"),
        (&"{\"a\":".repeat(200_000), "error parsing STDIN"),
    ] {
        let error = contents(text).await.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    let deepest = format!(
        "{}1{}",
        "[".repeat(reader::MAX_DEPTH),
        "]".repeat(reader::MAX_DEPTH)
    );
    assert_eq!(contents(&deepest).await.unwrap().len(), 1);
    let mut latin = &b"a: \xe9"[..];
    let read = DocumentReader::new(&mut latin)
        .objects(&["-".to_owned()], false)
        .await;
    assert!(read.unwrap_err().to_string().contains("not UTF-8"));
}

#[tokio::test]
async fn folders_are_read_as_far_as_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("below")).unwrap();
    for (name, text) in [
        ("b.yml", "n: 2"),
        ("a.yaml", "n: 1"),
        ("c.json", "{\"n\": 3}"),
        ("d.txt", "n: 4"),
        ("below/e.yaml", "n: 5"),
    ] {
        fs::write(path.join(name), text).unwrap();
    }
    let read = async |name: String, is_recursive: bool| {
        let mut nothing = io::empty();
        let documents = DocumentReader::new(&mut nothing)
            .objects(&[name], is_recursive)
            .await?;
        Ok::<Vec<Value>, DocumentError>(
            documents
                .iter()
                .map(|document| document.content["n"].clone())
                .collect(),
        )
    };
    let root = path.display().to_string();
    assert_eq!(read(root.clone(), false).await.unwrap(), [1, 2, 3]);
    assert_eq!(read(root.clone(), true).await.unwrap(), [1, 2, 5, 3]);
    assert_eq!(read(format!("{root}/d.txt"), false).await.unwrap(), [4]);
    assert_eq!(
        read(format!("{root}/none.yaml"), false)
            .await
            .unwrap_err()
            .to_string(),
        format!("the path {:?} does not exist", format!("{root}/none.yaml"))
    );
    fs::create_dir(path.join("empty")).unwrap();
    let error = read(format!("{root}/empty"), true).await.unwrap_err();
    assert!(error.to_string().contains("recognized file extensions"));
}

#[tokio::test]
async fn standard_input_is_read_once() {
    let mut stream = &b"a: 1"[..];
    let mut reader = DocumentReader::new(&mut stream);
    let twice = ["-".to_owned(), "-".to_owned()];
    assert!(matches!(
        reader.objects(&twice, false).await,
        Err(DocumentError::StandardInputUsedTwice)
    ));
}
