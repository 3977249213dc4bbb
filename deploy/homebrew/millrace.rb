# The formula for a Homebrew tap. It builds from source; at a release, set url and sha256 to those of the tag's archive.
class Millrace < Formula
  desc "Fair queues and other work distribution on the Redis you already have"
  homepage "https://github.com/millrace/millrace"
  url "https://github.com/millrace/millrace.git", branch: "main"
  version "0.0.0"
  license "Apache-2.0"
  head "https://github.com/millrace/millrace.git", branch: "main"

  depends_on "go" => :build
  depends_on "redis" => :recommended # demo and serve start a private one

  def install
    ENV["CGO_ENABLED"] = "0"
    system "go", "build", *std_go_args(ldflags: "-s -w"), "./cmd/millrace"
    generate_completions_from_executable(bin/"millrace", "completion")
  end

  service do
    run [opt_bin/"millrace", "serve"]
    keep_alive true
    environment_variables MILLRACE_REDIS_URL: "redis://127.0.0.1:6379"
  end

  test do
    assert_match "millrace", shell_output("#{bin}/millrace version")
  end
end
