# The image: static programs (Fleetdex, and helm and kustomize, which render for it), the CA certificates, and the licences of all that is linked
# into the programs.
#
# `docker build .` compiles them in Alpine. `make image` needs no engine: it compiles for both architectures and replaces the stage `build`.
FROM docker.io/library/golang:1.26-alpine AS renderers
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    image/renderers "$(go env GOARCH)" /out

FROM docker.io/library/rust:1.95-alpine AS build
RUN apk add --no-cache build-base cmake perl linux-headers ca-certificates jq
WORKDIR /src
COPY . .
COPY --from=renderers /out /renderers
# The workspace pins its toolchain; the image already has it.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --config 'profile.dist.strip="symbols"' --locked --package fleetdex --bin fleetdex \
    && image/root target/dist/fleetdex "$(rustc -vV | sed -n 's/^host: //p')" /renderers /out

FROM scratch
COPY --from=build /out/ /
LABEL org.opencontainers.image.title="Fleetdex" \
      org.opencontainers.image.description="A live, searchable index of every object in every Kubernetes cluster" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/usr/local/bin
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/fleetdex"]
CMD ["run"]
