use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use tar::{Builder, Header};

use super::*;

/// One entry of an archive, with a header that no well-behaved program writes.
struct TestEntry<'e> {
    path: &'e str,
    kind: EntryType,
    content: &'e [u8],
    link: &'e str,
}

fn file<'e>(path: &'e str, content: &'e [u8]) -> TestEntry<'e> {
    TestEntry {
        path,
        kind: EntryType::Regular,
        content,
        link: "",
    }
}

fn link<'e>(path: &'e str, kind: EntryType, link: &'e str) -> TestEntry<'e> {
    TestEntry {
        path,
        kind,
        content: b"",
        link,
    }
}

fn archive(entries: &[TestEntry<'_>]) -> Archive {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for entry in entries {
        let mut header = Header::new_gnu();
        // The bytes themselves: the crate refuses such paths when it writes.
        header.as_old_mut().name[..entry.path.len()].copy_from_slice(entry.path.as_bytes());
        header.as_old_mut().linkname[..entry.link.len()].copy_from_slice(entry.link.as_bytes());
        header.set_entry_type(entry.kind);
        header.set_size(entry.content.len() as u64);
        header.set_mode(0o777);
        header.set_cksum();
        tar.append(&header, entry.content).unwrap();
    }
    Archive::new(tar.into_inner().unwrap().finish().unwrap()).unwrap()
}

const SMALL: ArchiveLimits = ArchiveLimits {
    bytes: 1_000,
    file_bytes: 600,
    entries: 5,
    depth: 3,
};

fn refusal(entries: &[TestEntry<'_>]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside");
    let inside = folder.path().join("inside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir(&inside).unwrap();
    let error = archive(entries).unpack(&inside, &SMALL).unwrap_err();
    let written = fs::read_dir(&outside).unwrap().count();
    assert_eq!(written, 0, "something was written outside: {error}");
    error.to_string()
}

#[test]
fn files_folders_and_links_within_are_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let entries = [
        link("web/", EntryType::Directory, ""),
        file("./web/a.yaml", b"a"),
        link("web/to-a", EntryType::Symlink, "a.yaml"),
        link("web/sub/to-web", EntryType::Symlink, "../../web"),
        file("pax_global_header", b""),
    ];
    archive(&entries).unpack(folder.path(), &SMALL).unwrap();
    for path in ["web/a.yaml", "web/to-a", "web/sub/to-web/a.yaml"] {
        assert_eq!(fs::read(folder.path().join(path)).unwrap(), b"a");
    }
}

#[test]
fn attacks_are_refused_and_write_nothing_outside() {
    let symlink = EntryType::Symlink;
    for (entries, expected) in [
        (
            vec![file("../outside/a", b"x")],
            "the archive has the path ../outside/a, which has ..",
        ),
        (
            vec![file("web/../../outside/a", b"x")],
            "the archive has the path web/../../outside/a, which has ..",
        ),
        (
            vec![file("/etc/cron.d/a", b"x")],
            "the archive has the path /etc/cron.d/a, which is absolute",
        ),
        (
            vec![link("out", symlink, "../outside"), file("out/a", b"x")],
            "the archive has the path out, which is there twice",
        ),
        (
            vec![link("out", symlink, "../outside")],
            "the link out of the archive leads to nothing within it",
        ),
        (
            vec![link("passwd", symlink, "/etc/passwd")],
            "the link passwd of the archive leads to nothing within it",
        ),
        (
            vec![link("none", symlink, "missing")],
            "the link none of the archive leads to nothing within it",
        ),
        (
            // Each is within by its text; the second leads out through the first.
            vec![
                file("p/q/a", b"x"),
                link("p/q/up", symlink, "../.."),
                link("p/q/out", symlink, "up/../outside"),
            ],
            "the link p/q/out of the archive leads to nothing within it",
        ),
        (
            vec![file("a", b"x"), link("b", EntryType::Link, "a")],
            "b of the archive is a hard link; only files, folders and symbolic links are unpacked",
        ),
        (
            vec![link("null", EntryType::Char, "")],
            "null of the archive is a device; only files, folders and symbolic links are unpacked",
        ),
        (
            vec![link("pipe", EntryType::Fifo, "")],
            "pipe of the archive is a pipe; only files, folders and symbolic links are unpacked",
        ),
        (
            vec![file("a", b"x"), file("./a", b"y")],
            "the archive has the path ./a, which is there twice",
        ),
        (
            vec![file("a\u{fffd}", b"x")],
            "the archive has the path a\u{fffd}, which is not UTF-8",
        ),
    ] {
        assert_eq!(refusal(&entries), expected);
    }
}

#[test]
fn each_bound_is_named() {
    let (half, most) = ([0; 501], [0; 601]);
    for (entries, expected) in [
        (
            vec![file("a", &half), file("b", &half)],
            "the archive has more than 1000 bytes when it is unpacked",
        ),
        (
            vec![file("a", &most)],
            "the file a of the archive has more than 600 bytes",
        ),
        (
            ["1", "2", "3", "4", "5", "6"]
                .map(|path| file(path, b""))
                .into(),
            "the archive has more than 5 files, folders and links",
        ),
        (
            vec![file("a/b/c/d", b"")],
            "a/b/c/d of the archive is more than 3 folders deep",
        ),
    ] {
        assert_eq!(refusal(&entries), expected);
    }
}

/// Headers that describe other headers are read to memory, whatever the limits of files are.
#[test]
fn a_bomb_of_a_long_name_is_refused() {
    let zeros = vec![0; 1 << 20];
    let entry = TestEntry {
        path: "././@LongLink",
        kind: EntryType::GNULongName,
        content: &zeros,
        link: "",
    };
    let refused = refusal(&[entry, file("a", b"x")]);
    assert_eq!(
        refused,
        "the archive has more than 1000 bytes when it is unpacked"
    );
}

#[test]
fn what_is_no_archive_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let unpack = |bytes: Vec<u8>| Archive::new(bytes).unwrap().unpack(folder.path(), &SMALL);
    assert!(matches!(
        unpack(b"text".to_vec()),
        Err(ArchiveError::Unpack(_))
    ));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&[b'x'; 2_000]).unwrap();
    assert!(matches!(
        unpack(encoder.finish().unwrap()),
        Err(ArchiveError::Unpack(_))
    ));
    let long = vec![0; usize::try_from(MAX_PACKED_BYTES).unwrap() + 1];
    assert!(matches!(Archive::new(long), Err(ArchiveError::PackedBytes)));
}
