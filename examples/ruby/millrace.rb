# frozen_string_literal: true

require 'json'
require 'net/http'
require 'openssl'
require 'securerandom'
require 'socket'
require 'uri'

# Requests to millrace serve, repeated until they are answered. Ruby 2.7 or newer, no gems.
class Millrace
  # The service refused a request. The code is for programs: stale, not_found, ...
  class Problem < StandardError
    attr_reader :status, :code

    def initialize(status, document)
      super("#{document['detail'] || "status #{status}"} #{document['hint']}".strip)
      @status = status
      @code = document['code']
    end
  end

  def initialize(url = ENV.fetch('MILLRACE_URL', 'http://127.0.0.1:8420'), token = ENV.fetch('MILLRACE_TOKEN', ''))
    @url = URI(url)
    @token = token
  end

  # The same key makes the service apply a request once, however often it is sent.
  def post(path, body = {}, key: SecureRandom.uuid)
    request = Net::HTTP::Post.new(@url.path.chomp('/') + path, 'Content-Type' => 'application/json', 'Idempotency-Key' => key)
    request['Authorization'] = "Bearer #{@token}" unless @token.empty?
    request.body = JSON.generate(body)
    tries = 0
    begin
      send_once(request)
    rescue Problem, SystemCallError, IOError, Timeout::Error, Net::HTTPBadResponse, OpenSSL::SSL::SSLError => e
      tries += 1
      raise if tries == 8 || (e.is_a?(Problem) && !again?(e))

      sleep(rand(0.05..0.15) * 2**[tries - 1, 5].min) # not all clients at once
      retry
    end
  end

  # An Ick, or dirty list, with the words of Redis::Ick.
  class Ick
    def initialize(millrace, name)
      @millrace = millrace
      @path = "/v1/icks/#{URI.encode_www_form_component(name).gsub('+', '%20')}"
    end

    def ickadd(*members)
      @millrace.post("#{@path}/marks", { members: members })
    end

    # Commits members of the last batch, and reserves the next one, in one call.
    def ickexchange(max, token = '', members = [])
      done = members.empty? ? {} : { token: token, members: members }
      @millrace.post("#{@path}/exchange", { max: max }.merge(done))
    end
  end

  # Raised by a handler: the message is a dead letter.
  class Dead < StandardError; end

  # Raised by a handler: the messages of its tenant wait for so many seconds, as after a 429. It is no attempt.
  class Throttle < StandardError
    attr_reader :delay

    def initialize(delay, reason = 'throttled')
      super(reason)
      @delay = delay
    end
  end

  # A queue in which tenants take turns. A process handles one message at a time.
  class Queue
    def initialize(millrace, name)
      @millrace = millrace
      @path = "/v1/queues/#{URI.encode_www_form_component(name).gsub('+', '%20')}"
    end

    # The fields are those of HTTP: headers, delay: '10m', dedupe, priority, ...
    def write(tenant, json, **fields)
      @millrace.post("#{@path}/messages", fields.merge(tenant: tenant, json: json))['id']
    end

    # Calls the block for each message until SIGTERM. The visibility is longer than the block takes: after that a message
    # of a killed process comes again.
    def work(visibility: '10m', worker: "#{Socket.gethostname}/#{Process.pid}")
      ends = false
      Signal.trap('TERM') { ends = true }
      settled = {}
      until ends
        round = @millrace.post("#{@path}/work", settled.merge(worker: worker, concurrency: 1, max: 1, block: '5s', visibility: visibility, json: true))
        settled = round['messages'].empty? ? {} : outcome(round['messages'].first) { |message| yield message }
      end
      @millrace.post("#{@path}/work", settled.merge(worker: worker, leave: true))
    end

    private

    def outcome(message)
      receipt = message['receipt']
      yield message
      { ack: [receipt] }
    rescue Dead => e
      { dead: [{ receipt: receipt, reason: e.message }] }
    rescue Throttle => e
      { throttle: [{ receipt: receipt, delay: "#{e.delay}s", reason: e.message }] }
    rescue StandardError => e
      { nack: [{ receipt: receipt, reason: e.message }] }
    end
  end

  private

  def send_once(request)
    answer = Net::HTTP.start(@url.host, @url.port, use_ssl: @url.scheme == 'https', read_timeout: 90, max_retries: 0) do |http|
      http.request(request)
    end
    document = begin
      JSON.parse(answer.body.to_s)
    rescue JSON::ParserError
      {}
    end
    return document if answer.is_a?(Net::HTTPSuccess) && !document.empty?

    raise Problem.new(answer.code.to_i, document)
  end

  # 503: Redis is away. in_progress: the first try is still being answered. Below 300 a proxy has answered, with a page.
  def again?(problem)
    problem.status < 300 || problem.code == 'in_progress' || (problem.status >= 500 && ![501, 507].include?(problem.status))
  end
end
