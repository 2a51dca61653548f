//! Large objects, paths, patches and selectors from a few bytes: each byte is an instruction or a
//! number, so that a fuzzer reaches the limits of the product with inputs of some dozen bytes.

use std::fmt::Write as _;

/// The longest text of an instruction list. Objects have 8 MiB at most.
const MAX_BYTES: usize = 8 << 20;
/// Steps of a path, as many as paths may have and some more.
const MAX_STEPS: usize = 70;
/// Instructions in each other.
const MAX_DEPTH: usize = 8;

const NAMES: [&str; 24] = [
    "a",
    "b",
    "name",
    "type",
    "status",
    "spec",
    "containers",
    "initContainers",
    "containerStatuses",
    "initContainerStatuses",
    "conditions",
    "readinessGates",
    "conditionType",
    "envFrom",
    "secretRef",
    "selector",
    "matchLabels",
    "matchExpressions",
    "values",
    "namespaceSelector",
    "podSelector",
    "ingress",
    "rules",
    "k0",
];

/// Kinds with columns, rules or selectors of their own, and one that has none.
pub const KINDS: [(&str, &str); 12] = [
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("monitoring.coreos.com/v1", "ServiceMonitor"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("networking.k8s.io/v1", "Ingress"),
    ("v1", "Service"),
    ("batch/v1", "Job"),
    ("v1", "Node"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("example.com/v1", "Widget"),
    ("v1", "Event"),
];

/// Instructions that are read one after the other; 0 after the last one.
pub struct Instructions<'b> {
    bytes: std::slice::Iter<'b, u8>,
    /// How long one text may become.
    max_bytes: usize,
}

impl<'b> Instructions<'b> {
    /// The first byte says how long texts may become: 1 KiB to 8 MiB.
    pub fn new(bytes: &'b [u8]) -> Self {
        let mut instructions = Self {
            bytes: bytes.iter(),
            max_bytes: 0,
        };
        instructions.max_bytes = (1024 << (instructions.byte() % 14)).min(MAX_BYTES);
        instructions
    }

    /// The next instruction.
    pub fn byte(&mut self) -> usize {
        self.bytes.next().copied().map_or(0, usize::from)
    }

    /// A number that doubles with each of its values: 1 to 65,536.
    fn count(&mut self) -> usize {
        1 << (self.byte() % 17)
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.byte() % NAMES.len()]
    }

    /// An object of one of [`KINDS`], as JSON.
    pub fn object(&mut self, (api_version, kind): (&str, &str)) -> String {
        let third = self.max_bytes / 3;
        let mut part = || self.value(third, 0);
        let (metadata, spec, status) = (part(), part(), part());
        format!(
            r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"name":"n","namespace":"ns","uid":"u","resourceVersion":"7","annotations":{metadata},"labels":{{"a":"b"}}}},"spec":{spec},"status":{status}}}"#
        )
    }

    /// A JSON value of at most about so many bytes.
    pub fn value(&mut self, max_bytes: usize, depth: usize) -> String {
        let instruction = if depth >= MAX_DEPTH {
            0
        } else {
            self.byte() % 12
        };
        match instruction {
            0 => ["1", "null", "true", "\"x\"", "-7.5e3", "{}", "[]", "\"True\""][self.byte() % 8]
                .to_owned(),
            1 => format!("\"{}\"", "x".repeat(self.count().min(max_bytes))),
            2 => format!("\"{}\"", r"\n".repeat(self.count().min(max_bytes / 2))),
            3 => self.repeated(max_bytes, depth, ('[', ']'), |_, item| item.to_owned()),
            4 => self.repeated(max_bytes, depth, ('{', '}'), |index, item| {
                format!("\"k{index}\":{item}")
            }),
            5 => self.nested(max_bytes, depth, "[", "]"),
            6 => self.nested(max_bytes, depth, "{\"\":", "}"),
            7 => {
                let members = self.byte() % 8;
                let mut out = String::from("{");
                for index in 0..members {
                    let name = self.name();
                    let value = self.value(max_bytes / members, depth + 1);
                    let comma = if index == 0 { "" } else { "," };
                    let _ = write!(out, "{comma}\"{name}\":{value}");
                }
                out + "}"
            }
            8 => {
                let items = self.byte() % 8;
                let items: Vec<String> = (0..items)
                    .map(|_| self.value(max_bytes / items, depth + 1))
                    .collect();
                format!("[{}]", items.join(","))
            }
            9 => {
                let common = "c".repeat(self.byte());
                self.repeated(max_bytes, depth, ('{', '}'), |index, item| {
                    format!("\"{common}{index}\":{item}")
                })
            }
            10 => self.repeated(max_bytes, depth, ('[', ']'), |index, item| {
                format!("{{\"name\":\"c{index}\",\"type\":\"t{index}\",\"conditionType\":\"t{index}\",\"status\":{item}}}")
            }),
            // Chains of maps that the next list repeats.
            _ => format!("{}1{}", "{\"\":".repeat(100), "}".repeat(100)),
        }
    }

    fn repeated(
        &mut self,
        max_bytes: usize,
        depth: usize,
        (open, close): (char, char),
        entry: impl Fn(usize, &str) -> String,
    ) -> String {
        let count = self.count();
        let item = self.value(max_bytes, depth + 1);
        let mut out = String::from(open);
        for index in 0..count {
            if index > 0 && out.len() + item.len() > max_bytes {
                break;
            }
            if index > 0 {
                out.push(',');
            }
            out.push_str(&entry(index, &item));
        }
        out.push(close);
        out
    }

    fn nested(&mut self, max_bytes: usize, depth: usize, open: &str, close: &str) -> String {
        let levels = (self.byte() % 125).min(max_bytes / 8);
        let inner = self.value(max_bytes, depth + 1);
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    }

    /// A `JSONPath`, which may be refused.
    pub fn path(&mut self) -> String {
        let mut out = String::from("$");
        for _ in 0..self.byte() % MAX_STEPS {
            let name = self.name();
            let step = match self.byte() % 12 {
                0 => format!(".{name}"),
                1 => "[*]".to_owned(),
                2 => ".*".to_owned(),
                3 => format!("..{name}"),
                4 => "..*".to_owned(),
                5 => format!("[0,{},0,1,0]", self.byte()),
                6 => format!("['{name}','{name}','a','a']"),
                7 => format!("[?(@.{name}==\"x\")]"),
                8 => format!("[?(@..{name})]"),
                9 => format!("[?(@.{name}!={})]", self.byte()),
                10 => format!("[{}:]", self.byte() % 3),
                _ => format!("[?(@.*==@.{name})]"),
            };
            out.push_str(&step);
        }
        out
    }

    /// A JSON patch.
    pub fn patch(&mut self) -> String {
        let mut operations = Vec::new();
        for _ in 0..=self.byte() % 6 {
            let count = self.count().min(12_000);
            let place = |instruction: usize, name: &str| match instruction % 6 {
                0 => "/spec/0".to_owned(),
                1 => "/spec/-".to_owned(),
                2 => format!("/spec/{name}"),
                3 => "/spec".to_owned(),
                4 => format!("/status/{name}/0"),
                _ => "/metadata/annotations".to_owned(),
            };
            let path = place(self.byte(), self.name());
            let from = place(self.byte(), self.name());
            let operation = match self.byte() % 6 {
                0 | 1 => {
                    let value = self.value(self.max_bytes / count.max(4), 4);
                    format!(r#"{{"op":"add","path":"{path}","value":{value}}}"#)
                }
                2 => format!(r#"{{"op":"remove","path":"{path}"}}"#),
                3 => format!(r#"{{"op":"copy","from":"{from}","path":"{path}"}}"#),
                4 => format!(r#"{{"op":"move","from":"{from}","path":"{path}"}}"#),
                _ => format!(r#"{{"op":"replace","path":"{path}","value":1}}"#),
            };
            operations.extend(std::iter::repeat_n(operation, count));
        }
        format!("[{}]", operations.join(","))
    }

    /// A label selector.
    pub fn selector(&mut self) -> String {
        let mut requirements = Vec::new();
        for _ in 0..=self.byte() % 6 {
            let (count, length) = (self.count(), self.byte());
            let value = "v".repeat(length % 64);
            let (name, operator) = (self.name(), self.byte());
            let of = |index: usize| match operator % 5 {
                0 => format!("{name}{index}={value}"),
                1 => format!("{name}{index}!={value}"),
                2 => format!("!{name}{index}"),
                3 => format!("{name}{index} in ({value},{value}1,x{index})"),
                _ => format!("{name}{index} notin (,{value}x)"),
            };
            let wanted = count.min(self.max_bytes / (16 + 2 * value.len()));
            requirements.extend((0..wanted).map(of));
            let values: Vec<String> = (0..wanted).map(|index| format!("{value}{index}")).collect();
            requirements.push(format!("{name} in ({})", values.join(",")));
        }
        requirements.join(",")
    }

    /// Words and whether each is negated; up to 14 of 250 bytes.
    pub fn words(&mut self) -> Vec<(String, bool)> {
        let words = 1 + self.byte() % 14;
        let word = |instructions: &mut Self| {
            let text =
                ["x", "c", "k", "c1"][instructions.byte() % 4].repeat(1 + instructions.byte() / 2);
            (text, instructions.byte().is_multiple_of(2))
        };
        (0..words).map(|_| word(self)).collect()
    }
}
