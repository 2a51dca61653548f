use proptest::prelude::*;

use super::*;
use crate::test_rows::typed;

const DIGEST: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn parsed(text: &str) -> (String, Option<String>, Option<String>) {
    let reference = ImageReference::parse(text);
    (reference.repository, reference.tag, reference.digest)
}

#[test]
fn references_are_normalized_as_docker_does() {
    let cases = r"
        nginx | docker.io/library/nginx | - | -
        nginx:1.27 | docker.io/library/nginx | 1.27 | -
        library/nginx | docker.io/library/nginx | - | -
        docker.io/nginx | docker.io/library/nginx | - | -
        docker.io/library/nginx:1 | docker.io/library/nginx | 1 | -
        index.docker.io/nginx | docker.io/library/nginx | - | -
        team/app | docker.io/team/app | - | -
        registry/app:5000 | docker.io/registry/app | 5000 | -
        registry:5000/app | registry:5000/app | - | -
        registry:5000/app:v1 | registry:5000/app | v1 | -
        localhost/app | localhost/app | - | -
        localhost:5000/a/b/c | localhost:5000/a/b/c | - | -
        [::1]:5000/app:v1 | [::1]:5000/app | v1 | -
        Registry/app | Registry/app | - | -
        ghcr.io/team/app_x | ghcr.io/team/app_x | - | -
        registry.example | docker.io/library/registry.example | - | -
        nginx@sha256:ab | docker.io/library/nginx | - | sha256:ab
        registry.example:5000/team/app:v1@sha256:ab | registry.example:5000/team/app | v1
            | sha256:ab
    ";
    for (text, repository, tag, digest) in typed::<(&str, &str, Option<&str>, Option<&str>)>(cases)
    {
        assert_eq!(
            parsed(text),
            (
                repository.to_owned(),
                tag.map(str::to_owned),
                digest.map(str::to_owned)
            ),
            "{text}"
        );
    }
}

#[test]
fn a_text_that_is_no_reference_is_a_repository_as_it_stands() {
    for text in [
        "NGINX",
        "nginx:",
        "nginx:-x",
        "nginx@",
        "nginx@sha256",
        "nginx@sha256:",
        "nginx@a@b:c",
        "a//b",
        "/nginx",
        "nginx/",
        "-nginx",
        "nginx ",
        "${IMAGE}",
        "registry .example/app",
        "http://registry.example/app",
        "größe",
        ":",
        "@",
        "/",
    ] {
        assert_eq!(parsed(text), (text.to_owned(), None, None), "{text}");
        assert!(terms(text).contains(&query_term(text)), "{text}");
    }
    let long_tag = format!("nginx:{}", "a".repeat(129));
    assert_eq!(parsed(&long_tag).0, long_tag);
    assert_eq!(parsed(&"ä".repeat(5000)).0.len(), MAX_IMAGE_BYTES);
}

#[test]
fn a_query_finds_the_images_of_its_repository_tag_or_digest() {
    let with_both = format!("registry.example:5000/team/app:v1@{DIGEST}");
    let with_digest = format!("registry.example:5000/team/app@{DIGEST}");
    let other_tag = format!("registry.example:5000/team/app:v2@{DIGEST}");
    for (query, image, found) in [
        ("nginx", "nginx", true),
        ("nginx", "nginx:1.27", true),
        ("nginx", "docker.io/library/nginx:1.27", true),
        ("docker.io/library/nginx", "nginx:1.27", true),
        ("index.docker.io/library/nginx", "nginx:1.27", true),
        ("library/nginx:1.27", "docker.io/nginx:1.27", true),
        ("nginx:1.27", "nginx:1.27", true),
        ("nginx:1.27", "nginx:1.27.1", false),
        ("nginx:1.27", "nginx", false),
        ("nginx:latest", "nginx", true),
        ("nginx:latest", "nginx:latest", true),
        ("nginx:latest", "nginx:1.27", false),
        ("nginx:latest", "nginx@sha256:ab", false),
        ("nginx", "ghcr.io/library/nginx", false),
        ("nginx", "team/nginx", false),
        ("nginx", "nginx-exporter", false),
        ("team/app", "docker.io/team/app:v1", true),
        ("team/app", "ghcr.io/team/app:v1", false),
        ("team/app", "registry.example:5000/team/app", false),
        ("registry.example:5000/team/app", &with_both, true),
        ("registry.example:5000/team/app:v1", &with_both, true),
        (&with_digest, &with_both, true),
        (&with_digest, &with_digest, true),
        (&with_both, &with_digest, true),
        (&with_both, &other_tag, true),
        (
            "registry.example:5000/team/app@sha256:00",
            &with_both,
            false,
        ),
        ("", "", false),
        ("", "nginx", false),
    ] {
        assert_eq!(
            terms(image).contains(&query_term(query)),
            found,
            "{query} on {image}"
        );
    }
}

#[test]
fn the_default_tag_is_that_of_a_reference_without_tag_and_digest() {
    for (text, tag) in [
        ("nginx", Some("latest")),
        ("nginx:1", Some("1")),
        ("nginx@sha256:ab", None),
        ("nginx:1@sha256:ab", Some("1")),
    ] {
        assert_eq!(ImageReference::parse(text).requested_tag(), tag, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_finds_itself(text in "\\PC{1,60}") {
        prop_assert!(terms(&text).contains(&query_term(&text)));
    }

    #[test]
    fn normalization_is_idempotent(text in "[a-zA-Z.:/@_-]{1,40}") {
        let term = query_term(&text);
        prop_assert_eq!(query_term(&term), term);
    }
}
