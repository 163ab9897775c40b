# Builds slateberg from this checkout, for trying it out: docker compose -f container/compose.yaml up --build.
# Releases take container/Dockerfile, which packs a binary that was built reproducibly (make image).
FROM rust:1.95.0-bookworm AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /slateberg
COPY . .
# Static, as the final image has no libc.
RUN RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked --package slateberg \
        --target "$(rustc -vV | sed -n 's/^host: //p')" \
    && mkdir -p /image/usr/bin /image/etc/ssl/certs /image/data \
    && cp target/*/release/slateberg /image/usr/bin/slateberg \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt \
    && echo 'slateberg:x:65532:65532:slateberg:/var/lib/slateberg:/sbin/nologin' > /image/etc/passwd \
    && echo 'hosts: files dns' > /image/etc/nsswitch.conf

FROM scratch
COPY --from=build /image/usr /usr
COPY --from=build /image/etc /etc
COPY --from=build --chown=65532:65532 /image/data /var/lib/slateberg
USER 65532:65532
EXPOSE 8181
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/slateberg"]
CMD ["serve", "--listen", "0.0.0.0:8181", "--data-dir", "/var/lib/slateberg"]
