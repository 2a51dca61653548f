//! The values of an object's selectable fields, and how they are read.

use std::borrow::Cow;

use crate::model::{
    FieldPath, FieldType, JsonTree, SelectableField, member_mask::MemberMask, sort_key::sort_field,
};

/// The values of an object's selectable fields, in the order of its [`Projector::fields`].
pub struct FieldValues<'a>(pub(super) Vec<(usize, Cow<'a, str>)>);

/// How a field is read and sorted.
#[derive(Clone, Debug)]
pub(super) struct FieldReading {
    /// The names of the members on the way to each of its sources.
    pub(super) sources: Vec<Vec<Box<str>>>,
    /// Its key in `search.sort`.
    pub(super) sort_key: String,
}

/// How fields are read and sorted, and the members that are read for them.
pub(super) fn read_by(fields: &[SelectableField]) -> (Vec<FieldReading>, MemberMask) {
    let mut mask = MemberMask::default();
    let mut names = |path: &FieldPath| {
        mask.add(path.segments());
        path.segments().map(Box::from).collect()
    };
    let readings = fields
        .iter()
        .map(|field| FieldReading {
            sources: field.sources.iter().map(&mut names).collect(),
            sort_key: sort_field(&field.path),
        })
        .collect();
    (readings, mask)
}

impl<'a> FieldValues<'a> {
    pub(super) fn read(
        fields: &[SelectableField],
        readings: &[FieldReading],
        object: &JsonTree<'a>,
    ) -> Self {
        let mut values = Vec::with_capacity(fields.len());
        for (position, (field, reading)) in fields.iter().zip(readings).enumerate() {
            reading.read(position, field.kind, object, &mut values);
        }
        Self(values)
    }
}

impl FieldReading {
    /// Appends the values of the field at a position: those of the first source that has any, else
    /// the value that an absent field reads.
    fn read<'a>(
        &self,
        position: usize,
        kind: FieldType,
        object: &JsonTree<'a>,
        values: &mut Vec<(usize, Cow<'a, str>)>,
    ) {
        for source in &self.sources {
            let before = values.len();
            object.texts_at(source, &mut |text| {
                if !text.is_empty() {
                    values.push((position, text));
                }
            });
            if values.len() > before {
                return;
            }
        }
        if kind != FieldType::Optional {
            values.push((position, Cow::Borrowed(kind.absent())));
        }
    }
}

impl FieldValues<'_> {
    /// The first value of a field, by its position in [`Projector::fields`].
    pub fn get(&self, field: usize) -> Option<&str> {
        self.all(field).next()
    }

    /// Every value of a field, by its position in [`Projector::fields`].
    pub fn all(&self, field: usize) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(position, _)| *position == field)
            .map(|(_, value)| &**value)
    }
}
