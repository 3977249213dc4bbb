# frozen_string_literal: true

# Sends the mails of a queue: ruby mailer.rb enqueue acme ann@a.example order-17; ruby mailer.rb work
require_relative 'millrace'

MAILS = Millrace::Queue.new(Millrace.new, 'mails')

def enqueue(customer, to, key, delay: '0s')
  MAILS.write(customer, { to: to, key: key }, headers: { type: 'mail' }, dedupe: key, delay: delay)
end

def handle(message)
  to, key = message['json'].values_at('to', 'key')
  if message['headers']['type'] == 'digest'
    to = 'team@shop.example'
    key = "digest-#{message['headers']['millrace-tick'][0, 10]}"
  end
  answer = Net::HTTP.post(URI(ENV.fetch('MAIL_URL')), JSON.generate({ to: to }), 'Idempotency-Key' => key)
  case answer
  when Net::HTTPSuccess then nil
  when Net::HTTPNotFound then raise Millrace::Dead, 'no such address'
  when Net::HTTPTooManyRequests then raise Millrace::Throttle, answer['Retry-After'] # this customer's mails wait
  else raise "the service says #{answer.code}" # comes again after 1, 2, 4, ... seconds
  end
end

case ARGV.shift
when 'enqueue' then puts enqueue(*ARGV)
when 'work' then MAILS.work { |message| handle(message) }
else abort 'usage: ruby mailer.rb enqueue CUSTOMER TO KEY | work'
end
