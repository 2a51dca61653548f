//! Which members of objects are read.

/// The members that are read, and those below them. Arrays are transparent: what is said of a path
/// holds for every item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberMask {
    /// Whether everything below is read.
    pub(super) is_whole: bool,
    members: Vec<(Box<str>, MemberMask)>,
}

static EVERYTHING: MemberMask = MemberMask {
    is_whole: true,
    members: Vec::new(),
};

impl MemberMask {
    /// Everything is read.
    pub fn everything() -> &'static Self {
        &EVERYTHING
    }

    /// Adds the value at a path, with everything below it.
    pub fn add<'p>(&mut self, path: impl IntoIterator<Item = &'p str>) {
        let mut mask = self;
        for name in path {
            if mask.is_whole {
                return;
            }
            mask = mask.member_or_insert(name);
        }
        mask.clone_from(&EVERYTHING);
    }

    /// Adds all that another mask names.
    pub fn unite(&mut self, other: &Self) {
        if self.is_whole {
            return;
        }
        if other.is_whole {
            self.clone_from(&EVERYTHING);
        }
        for (name, below) in &other.members {
            self.member_or_insert(name).unite(below);
        }
    }

    /// What is read of a member; `None` if nothing is.
    pub fn member(&self, name: &str) -> Option<&Self> {
        if self.is_whole {
            return Some(&EVERYTHING);
        }
        let found = self.members.iter().find(|(known, _)| **known == *name);
        found.map(|(_, below)| below)
    }

    fn member_or_insert(&mut self, name: &str) -> &mut Self {
        let known = self.members.iter();
        let position = known.clone().position(|(known, _)| **known == *name);
        let position = position.unwrap_or_else(|| {
            self.members.push((name.into(), Self::default()));
            self.members.len() - 1
        });
        &mut self.members[position].1
    }
}
