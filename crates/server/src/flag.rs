//! Parameters that are true or false.

/// What a parameter says that stands in the query: `0` and `false`, in any case, are no; anything else is yes, no value at all included.
///
/// Source: `Convert_Slice_string_To_bool` of <https://pkg.go.dev/k8s.io/apimachinery/pkg/runtime>
pub fn flag(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_zero_and_false_are_no() {
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
