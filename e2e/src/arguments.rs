//! The arguments of a command: words of one text, or a list for those that have blanks.

/// A text that is split at blanks, or a list.
pub trait Arguments {
    /// The arguments, in their order.
    fn words(&self) -> Vec<&str>;
}

impl Arguments for str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl Arguments for String {
    fn words(&self) -> Vec<&str> {
        self.as_str().words()
    }
}

impl<A: AsRef<str>> Arguments for [A] {
    fn words(&self) -> Vec<&str> {
        self.iter().map(AsRef::as_ref).collect()
    }
}

impl<A: AsRef<str>, const N: usize> Arguments for [A; N] {
    fn words(&self) -> Vec<&str> {
        self.as_slice().words()
    }
}

impl<T: AsRef<str>> Arguments for Vec<T> {
    fn words(&self) -> Vec<&str> {
        self.as_slice().words()
    }
}

impl<T: Arguments + ?Sized> Arguments for &T {
    fn words(&self) -> Vec<&str> {
        (**self).words()
    }
}
