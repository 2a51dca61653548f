//! `ResourceRegistry`.
