# The service `millrace serve`, in an image that holds nothing else.
#
#     docker build -t millrace .
#     docker run -p 8420:8420 -e MILLRACE_REDIS_URL=redis://redis:6379 -e MILLRACE_AUTH="bearer TOKEN" millrace
#
# It needs both variables. Without MILLRACE_AUTH it does not start, since it listens for other machines. Without
# MILLRACE_REDIS_URL it works on a private imitation of a Redis, there being no redis-server here, and all is gone when it ends.
# Any other command runs as well: docker run -e MILLRACE_REDIS_URL millrace doctor

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /millrace ./cmd/millrace

FROM scratch
# Who is trusted to sign certificates of rediss:// servers.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /millrace /millrace
USER 65532:65532
EXPOSE 8420
# There is no HEALTHCHECK, for which a shell or another program would be needed: have /healthz and /readyz asked from outside.
ENTRYPOINT ["/millrace"]
CMD ["serve", "--listen", "0.0.0.0:8420"]
