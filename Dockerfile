# syntax=docker/dockerfile:1
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/permitd .
RUN mkdir -p /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/permitd /permitd
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
# Policies are compiled to files that only this process may write; nothing else is written outside the data.
ENV TMPDIR=/data
VOLUME /data
EXPOSE 7707
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["/permitd", "health"]
ENTRYPOINT ["/permitd"]
