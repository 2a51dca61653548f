//! A tower layer that attaches an intake to each response.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use tower::{Layer, Service};

use super::budget::Intake;

/// Attaches the intake of a member to each of its responses.
#[derive(Clone, Debug)]
pub struct IntakeLayer(pub Intake);

impl<S> Layer<S> for IntakeLayer {
    type Service = IntakeService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IntakeService {
            inner,
            intake: self.0.clone(),
        }
    }
}

/// The service of an [`IntakeLayer`].
#[derive(Clone, Debug)]
pub struct IntakeService<S> {
    inner: S,
    intake: Intake,
}

impl<S, I, O> Service<Request<I>> for IntakeService<S>
where
    S: Service<Request<I>, Response = Response<O>>,
    S::Future: Send + 'static,
{
    type Response = Response<O>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<O>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<I>) -> Self::Future {
        let intake = self.intake.clone();
        let response = self.inner.call(request);
        Box::pin(async move {
            let mut response = response.await?;
            response.extensions_mut().insert(intake);
            Ok(response)
        })
    }
}
