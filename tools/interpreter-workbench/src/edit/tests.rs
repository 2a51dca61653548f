use std::{os::unix::fs::PermissionsExt as _, path::PathBuf};

use super::*;

const CUSTOMIZATION: &str = "\
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata:
  name: foo
  labels: {team: a}
spec:
  target: {apiVersion: example.io/v1, kind: Foo}
  customizations:
    healthInterpretation:
      luaScript: |
        -- Any Foo is well.
        function InterpretHealth(obj)
          return true
        end
";

/// A folder with a customization, and an editor that is a shell script.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new(customization: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("foo.yaml"), customization).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn saved(&self) -> String {
        fs::read_to_string(self.path("foo.yaml")).unwrap()
    }

    /// Edits with a script that finds the file in `$1`, and the folder in `$DESK`.
    async fn edit(&self, script: &str) -> (bool, String) {
        let editor = self.path("editor");
        let folder = self.folder.path().display();
        fs::write(&editor, format!("#!/bin/sh\nDESK={folder}\n{script}\n")).unwrap();
        fs::set_permissions(&editor, fs::Permissions::from_mode(0o700)).unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut console = Console {
            out: &mut out,
            err: &mut err,
            has_colours: false,
        };
        let mut no_input = std::io::empty();
        let result = edit(
            &[self.path("foo.yaml").display().to_string()],
            false,
            &format!("sh {}", editor.display()),
            &mut DocumentReader::new(&mut no_input),
            &mut console,
        )
        .await;
        let is_complete = console.finish(result);
        (is_complete, String::from_utf8(err).unwrap())
    }
}

#[tokio::test]
async fn an_edited_script_is_saved_with_all_other_fields() {
    let desk = Desk::new(CUSTOMIZATION);
    let (is_complete, err) = desk
        .edit("sed -i 's/return true/return obj.spec.good/' $1")
        .await;
    assert!(is_complete, "{err}");
    assert_eq!(
        err,
        "resourceinterpretercustomization.config.karmada.io/foo edited\n"
    );
    insta::assert_snapshot!(desk.saved(), @"
    apiVersion: config.karmada.io/v1alpha1
    kind: ResourceInterpreterCustomization
    metadata:
      labels:
        team: a
      name: foo
    spec:
      customizations:
        healthInterpretation:
          luaScript: |
            -- Any Foo is well.
            function InterpretHealth(obj)
              return obj.spec.good
            end
      target:
        apiVersion: example.io/v1
        kind: Foo
    ");
}

#[tokio::test]
async fn the_file_has_the_target_and_every_rule() {
    let desk = Desk::new(CUSTOMIZATION);
    let (is_complete, err) = desk.edit("cp $1 $DESK/shown").await;
    assert!(is_complete);
    assert_eq!(err, "Edit cancelled, no changes made.\n");
    assert_eq!(desk.saved(), CUSTOMIZATION);
    insta::assert_snapshot!(fs::read_to_string(desk.path("shown")).unwrap(), @"
    -- Edit the customization below, then save and close the editor. A rule without a script is
    -- left out. If something is wrong, the file is opened again, with the reasons here on top.
    ---@name: foo
    ---@apiVersion: example.io/v1
    ---@kind: Foo
    ---@rule: Retain
    ---@rule: InterpretReplica
    ---@rule: InterpretComponent
    ---@rule: ReviseReplica
    ---@rule: InterpretStatus
    ---@rule: AggregateStatus
    ---@rule: InterpretHealth
    -- Any Foo is well.
    function InterpretHealth(obj)
      return true
    end
    ---@rule: InterpretDependency
    ");
}

#[tokio::test]
async fn a_script_that_does_not_compile_is_edited_again_with_the_reason() {
    let desk = Desk::new(CUSTOMIZATION);
    let script = "if [ -e $DESK/second ]; then cp $1 $DESK/shown; sed -i 's/retrun/return/' $1; \
                  else touch $DESK/second; sed -i 's/return true/retrun false/' $1; fi";
    let (is_complete, err) = desk.edit(script).await;
    assert!(is_complete, "{err}");
    let shown = fs::read_to_string(desk.path("shown")).unwrap();
    assert!(
        shown.contains("--     InterpretHealth:        ERROR: line 3: "),
        "{shown}"
    );
    assert!(shown.contains("-- Any Foo is well.\n"), "{shown}");
    assert!(desk.saved().contains("return false"), "{}", desk.saved());
    assert!(!desk.saved().contains("ERROR"), "{}", desk.saved());
}

#[tokio::test]
async fn whoever_gives_up_finds_the_text_in_a_file() {
    let desk = Desk::new(CUSTOMIZATION);
    let (is_complete, err) = desk.edit("sed -i 's/return true/retrun false/' $1").await;
    assert!(!is_complete);
    assert!(
        err.contains("Edit cancelled, no valid changes were saved.\n"),
        "{err}"
    );
    let (_, kept) = err.split_once("has been stored to \"").unwrap();
    let kept = kept.trim_end().trim_end_matches('"');
    assert!(fs::read_to_string(kept).unwrap().contains("retrun false"));
    fs::remove_file(kept).unwrap();
    assert_eq!(desk.saved(), CUSTOMIZATION);
}

#[tokio::test]
async fn what_an_editor_saved_before_it_failed_is_kept() {
    let broken = "sed -i 's/return true/retrun false/' $1";
    for (script, problem) in [
        (format!("{broken}; exit 3"), "ended with exit status: 3"),
        (
            format!("{broken}; printf '\\377' >> $1"),
            "cannot read what the editor",
        ),
        (
            format!("if [ -e $DESK/second ]; then exit 3; fi; touch $DESK/second; {broken}"),
            "ended with exit status: 3",
        ),
        (
            format!("if [ -e $DESK/second ]; then exec rm $1; fi; touch $DESK/second; {broken}"),
            "cannot read what the editor",
        ),
    ] {
        let desk = Desk::new(CUSTOMIZATION);
        let (is_complete, err) = desk.edit(&script).await;
        assert!(!is_complete && err.contains(problem), "{err}");
        let (_, kept) = err.split_once("has been stored to \"").unwrap();
        let (kept, _) = kept.split_once('"').unwrap();
        let text = fs::read(kept).unwrap();
        assert!(String::from_utf8_lossy(&text).contains("retrun false"));
        fs::remove_file(kept).unwrap();
        assert_eq!(desk.saved(), CUSTOMIZATION);
    }
}

#[test]
fn comments_of_a_script_stay_beside_the_documents_of_the_rules() {
    let script = "--\n-- Any Foo is well.\n--\nfunction InterpretHealth(obj)\n  return true\nend\n";
    let customization = json!({
        "apiVersion": fleetdex_interpreter::webhook::API_VERSION,
        "kind": KIND,
        "metadata": { "name": "foo" },
        "spec": {
            "target": { "apiVersion": "example.io/v1", "kind": "Foo" },
            "customizations": { "healthInterpretation": { "luaScript": script } },
        },
    });
    let file = ScriptFile::of(&customization, true);
    assert_eq!(file.read(&file.text, &customization), Ok(customization));
}

#[tokio::test]
async fn a_new_customization_begins_in_an_empty_file() {
    let desk = Desk::new("");
    let script = "sed -i -e 's/^---@name:.*/---@name: bar/' -e 's/^---@apiVersion:.*/---@apiVersion: example.io\\/v1/' \
                  -e 's/^---@kind:.*/---@kind: Bar/' $1; echo 'function GetDependencies(obj) return {} end' >> $1";
    let (is_complete, err) = desk.edit(script).await;
    assert!(is_complete, "{err}");
    assert!(desk.saved().contains("name: bar"), "{}", desk.saved());
    assert!(
        desk.saved().contains("dependencyInterpretation:"),
        "{}",
        desk.saved()
    );
}

#[tokio::test]
async fn only_one_customization_can_be_edited() {
    let two = format!("{CUSTOMIZATION}---\n{CUSTOMIZATION}");
    for (content, problem) in [
        (two.as_str(), "only one customization can be edited"),
        (
            "apiVersion: v1\nkind: Pod\n",
            "not a ResourceInterpreterCustomization",
        ),
    ] {
        let (is_complete, err) = Desk::new(content).edit("true").await;
        assert!(!is_complete && err.contains(problem), "{err}");
    }
    let (is_complete, err) = Desk::new(CUSTOMIZATION).edit("exit 3").await;
    assert!(!is_complete && err.contains("nothing was saved"), "{err}");
    assert!(
        !err.contains("has been stored"),
        "nothing was edited: {err}"
    );
}
