# frozen_string_literal: true

# Brings a search index in line with documents that changed: ruby indexer.rb mark doc:17 doc:18; ruby indexer.rb work
require_relative 'millrace'

dirty = Millrace::Ick.new(Millrace.new, 'search')

# Reads the current state of a document, and writes it to the index. It may run more often than the document changed.
def index(member)
  puts "indexed #{member}"
end

case ARGV.shift
when 'mark' # after each change is committed
  puts dirty.ickadd(*ARGV)['new']
when 'work' # one process; several share a channel: see README.md
  $stdout.sync = true
  token = ''
  done = []
  loop do
    batch = dirty.ickexchange(100, token, done)
    token = batch['token']
    done = batch['entries'].map { |entry| entry['member'] }
    done.each { |member| index(member) }
    break if done.empty? && ENV['UNTIL_EMPTY']

    sleep(1) if done.empty?
  end
else
  abort 'usage: ruby indexer.rb mark MEMBER... | work'
end
