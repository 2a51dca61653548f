//! Boolean query parameters.

/// The value of a boolean parameter that is present: `0` and `false`, in any case, are false;
/// everything else is true, no value included.
///
/// Source: `Convert_Slice_string_To_bool` of <https://pkg.go.dev/k8s.io/apimachinery/pkg/runtime>
pub fn flag(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_and_false_are_false() {
        assert!(
            ["0", "false", "False", "FALSE"]
                .iter()
                .all(|value| !flag(value))
        );
        assert!(
            ["", "1", "true", "True", "yes", "00", "no", " false"]
                .iter()
                .all(|value| flag(value))
        );
    }
}
