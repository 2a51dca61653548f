//! The limits of one budget, in bytes.

/// Memory is reserved in steps of this size: few enough for a large page, small enough for a small
/// answer.
pub(super) const STEP: usize = 64 << 10;

/// A reservation of up to this size is small: some dozens of usual objects.
pub(super) const SMALL: usize = 256 << 10;

/// How many bytes each kind of body may have, and all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// A page of a list: 500 objects of 64 KiB. A longer page is requested again with fewer
    /// objects.
    pub page: usize,
    /// A line of a watch: a change of one object. etcd accepts no request over 1.5 MiB by default,
    /// and JSON is longer than what etcd stores by a factor of at most a few.
    pub line: usize,
    /// Any other answer. The aggregated discovery of a cluster with 2,000 kinds has about 2 MiB.
    pub answer: usize,
    /// What is read of an error response; the rest is left unread.
    pub refusal: usize,
    /// What all reservations of up to [`SMALL`] may hold besides, so that they do not wait for
    /// large ones.
    pub small: usize,
    /// What all reservations of one request may hold together, where that is more than one body.
    pub request: usize,
    /// What one member may hold: two lists, each with one page that is written and one that is
    /// read, of half of the largest size.
    pub share: usize,
    /// What all members may hold together, without the reserve.
    pub shared: usize,
}

impl MemoryLimits {
    /// The largest body or request, and therefore what one of them may hold beside the shared part.
    pub fn reserve(&self) -> usize {
        let body = self.page.max(self.line).max(self.answer);
        body.max(self.request)
    }

    /// How many steps the shared part has.
    pub(super) fn shared_steps(&self) -> usize {
        (self.shared / STEP).max(1)
    }

    /// What all members may hold together.
    pub fn bound(&self) -> usize {
        self.shared_steps() * STEP + self.small + self.reserve().next_multiple_of(STEP)
    }
}

impl Default for MemoryLimits {
    /// 128 MiB for everything that is read of members.
    fn default() -> Self {
        Self {
            page: 32 << 20,
            line: 16 << 20,
            answer: 32 << 20,
            refusal: 64 << 10,
            small: 0,
            request: 0,
            share: 64 << 20,
            shared: 96 << 20,
        }
    }
}
