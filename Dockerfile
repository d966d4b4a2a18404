# An image of the `tpu` command: built from the lock file, without a shell, for a user that is not root.
#   docker build --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) -t tpubridge .
# The same image without Docker: scripts/oci-image.py. docs/howto/gke.md says more.
# Pin both images by digest for a build that can be repeated: --build-arg RUST=rust@sha256:… --build-arg BASE=…@sha256:…
ARG RUST=rust:1-bookworm
ARG BASE=gcr.io/distroless/cc-debian12:nonroot

FROM ${RUST} AS build
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} CARGO_INCREMENTAL=0 \
    RUSTFLAGS="--remap-path-prefix=/source=. --remap-path-prefix=/usr/local/cargo=cargo"
WORKDIR /source
COPY . .
RUN cargo build --profile dist --locked -p tpubridge-cli && \
    touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" target/dist/tpu

FROM ${BASE}
COPY --from=build /source/target/dist/tpu /usr/local/bin/tpu
# `libtpu.so` is put in where it lies beside this file. Without it the image trains on CPUs, or a pod mounts one at this path.
# The license is named because a pattern may match nothing only where something else is copied too.
COPY LICENSE libtpu.so* /opt/tpubridge/
ENV TPU_LIBRARY_PATH=/opt/tpubridge/libtpu.so
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/tpu"]
