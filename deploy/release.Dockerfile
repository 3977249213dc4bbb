# The image of a release, from the program that the release has. The Dockerfile of the repository builds the same from source.
FROM gcr.io/distroless/static-debian12:nonroot
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/millrace /millrace
EXPOSE 8420
ENTRYPOINT ["/millrace"]
CMD ["serve", "--listen", "0.0.0.0:8420"]
