# Builds one static binary and ships nothing else but the CA certificates.
FROM docker.io/library/rust:1.95-alpine AS build
RUN apk add --no-cache build-base cmake perl linux-headers ca-certificates
WORKDIR /src
COPY . .
# The workspace pins its toolchain; the image already has it.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --package fleetdex --bin fleetdex \
    && install -D --strip target/dist/fleetdex /out/fleetdex

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/fleetdex /usr/local/bin/fleetdex
ENV PATH=/usr/local/bin
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/fleetdex"]
CMD ["run"]
