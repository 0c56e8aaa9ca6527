# syntax=docker/dockerfile:1
# The same image as that of make image, for those who build with Docker; a test holds
# the two together. The build arguments are what --version and the labels tell.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# What .dockerignore lets through: the program's packages, wherever they are.
COPY . ./
ARG TARGETOS TARGETARCH VERSION COMMIT DATE
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X schedule-night/internal/cli.buildVersion=$VERSION -X schedule-night/internal/cli.buildCommit=$COMMIT -X schedule-night/internal/cli.buildDate=$DATE" -o /schedule-night .

FROM scratch
ARG VERSION COMMIT DATE
LABEL org.opencontainers.image.title="schedule-night" \
      org.opencontainers.image.description="Scales annotated Deployments down at night and back up in the morning" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT" \
      org.opencontainers.image.created="$DATE"
COPY --from=build /schedule-night /schedule-night
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/schedule-night"]
