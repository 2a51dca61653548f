//! JSON of others, parsed within a reservation of the memory that it takes.
//!
//! A value takes up to 145 times its text, so that a budget of texts bounds nothing that is parsed.
//! Nothing from outside becomes a `serde_json::Value`, or a type that owns one, in another way than
//! this (`tests/pure/parsed_values.rs`).

use std::ops::Deref;

use bytes::Bytes;
use fleetdex_core::model::parsed_size;
use serde::de::DeserializeOwned;

use crate::{
    computing::beside_serving_if_long,
    intake::{Intake, IntakeError, MemoryReservation},
};

/// A text of JSON, with the memory that it takes when it is parsed.
pub struct ReservedJson {
    text: Bytes,
    memory: MemoryReservation,
}

impl ReservedJson {
    /// Waits for the memory of `copies` values of a text. Fails at once if they would take more
    /// than one request may hold, or more than the rest of the share.
    pub async fn reserve(intake: &Intake, text: Bytes, copies: usize) -> Result<Self, IntakeError> {
        let mut memory = intake.reservation();
        grow(
            &mut memory,
            intake,
            beside_serving_if_long(text.len(), || parsed_size(&text)).saturating_mul(copies),
        )
        .await?;
        Ok(Self { text, memory })
    }

    /// Parses the text. A `T` may take no more than a `Value` of the same text.
    pub fn parse<T: DeserializeOwned>(self) -> Result<Parsed<T>, serde_json::Error> {
        Ok(Parsed {
            value: serde_json::from_slice(&self.text)?,
            memory: self.memory,
        })
    }
}

/// Waits until a reservation has `bytes`. Fails at once if that is more than one request may hold.
pub async fn grow(
    memory: &mut MemoryReservation,
    intake: &Intake,
    bytes: usize,
) -> Result<(), IntakeError> {
    let limit = intake.limits().reserve();
    if bytes > limit {
        return Err(IntakeError::TooLarge(limit));
    }
    memory.grow(bytes).await
}

/// A parsed value, with the memory that it takes: reserved until it is dropped.
pub struct Parsed<T> {
    value: T,
    memory: MemoryReservation,
}

impl<T> Parsed<T> {
    /// What a conversion makes of the value, which may take no more than the value.
    pub fn try_map<U, E>(self, convert: impl FnOnce(T) -> Result<U, E>) -> Result<Parsed<U>, E> {
        Ok(Parsed {
            value: convert(self.value)?,
            memory: self.memory,
        })
    }
}

impl<T> Deref for Parsed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::intake::{Budget, MemoryLimits};

    const MIB: usize = 1 << 20;

    fn budget() -> Budget {
        Budget::new(MemoryLimits {
            page: 0,
            line: 0,
            answer: 16 * MIB,
            refusal: 0,
            small: 0,
            request: 0,
            share: 24 * MIB,
            shared: 32 * MIB,
        })
    }

    fn nested(chains: usize) -> Bytes {
        let chain = format!("{}1{}", "{\"\":".repeat(100), "}".repeat(100));
        format!("[{}]", vec![chain; chains].join(",")).into()
    }

    #[tokio::test]
    async fn a_parsed_value_holds_what_it_takes_until_it_is_dropped() {
        let budget = budget();
        let alice = budget.share("alice");
        let text = nested(200);
        assert!(text.len() < 128 << 10);
        let reserved = ReservedJson::reserve(&alice, text.clone(), 1)
            .await
            .unwrap();
        let parsed: Parsed<Value> = reserved.parse().unwrap();
        let held = budget.held();
        assert!(held > 80 * text.len(), "{held} bytes for {}", text.len());
        let items = parsed.try_map(|value| match value {
            Value::Array(items) => Ok(items),
            _ => Err(()),
        });
        assert_eq!(items.as_ref().map(|items| items.len()), Ok(200));
        assert_eq!(budget.held(), held);

        let second = ReservedJson::reserve(&alice, text.clone(), 1)
            .await
            .unwrap();
        let third = ReservedJson::reserve(&alice, text.clone(), 1).await;
        assert!(matches!(third, Err(IntakeError::ShareExhausted(_))));
        let bob = budget.share("bob");
        assert!(ReservedJson::reserve(&bob, text, 1).await.is_ok());
        drop((items, second));
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn what_would_take_more_than_the_limit_is_refused_before_it_is_parsed() {
        let budget = budget();
        let alice = budget.share("alice");
        let refused = ReservedJson::reserve(&alice, nested(500), 1).await;
        assert!(matches!(refused, Err(IntakeError::TooLarge(limit)) if limit == 16 * MIB));
        let copied = ReservedJson::reserve(&alice, nested(200), 4).await;
        assert!(matches!(copied, Err(IntakeError::TooLarge(_))));
        let broken = ReservedJson::reserve(&alice, "{\"a\":".into(), 1).await;
        assert!(broken.unwrap().parse::<Value>().is_err());
        assert_eq!(budget.held(), 0);
    }
}
