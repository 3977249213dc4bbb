return redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
