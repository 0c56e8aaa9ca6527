# syntax=docker/dockerfile:1
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH VERSION=""
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY *.go ./
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.buildVersion=$VERSION" -o /schedule-night .

FROM scratch
COPY --from=build /schedule-night /schedule-night
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/schedule-night"]
