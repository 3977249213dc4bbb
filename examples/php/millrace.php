<?php
declare(strict_types=1);

/** The service refused a request. The code is for programs: held, not_found, ... */
class Problem extends RuntimeException
{
    public function __construct(public readonly int $status, public readonly array $document)
    {
        parent::__construct(trim(($document['detail'] ?? "status $status") . ' ' . ($document['hint'] ?? '')));
    }

    public function is(string $code): bool
    {
        return ($this->document['code'] ?? '') === $code;
    }
}

/** Requests to millrace serve, repeated until they are answered. PHP 8.1 or newer, no packages. */
class Millrace
{
    public function __construct(private string $url = '', private string $token = '')
    {
        $this->url = rtrim($url ?: (getenv('MILLRACE_URL') ?: 'http://127.0.0.1:8420'), '/');
        $this->token = $token ?: (string) getenv('MILLRACE_TOKEN');
    }

    public function get(string $path, array $query = []): array
    {
        return $this->call('GET', $path . ($query ? '?' . self::query($query) : ''), null);
    }

    /** The same key makes the service apply a request once, however often it is sent. */
    public function post(string $path, array $body = [], ?string $key = null): array
    {
        return $this->call('POST', $path, (string) json_encode((object) $body, JSON_THROW_ON_ERROR), $key);
    }

    /** A path whose names are percent-encoded: path('hashes', 'sessions', 'a/b'). */
    public static function path(string ...$parts): string
    {
        return '/v1/' . implode('/', array_map(rawurlencode(...), $parts));
    }

    private function call(string $method, string $path, ?string $body, ?string $key = null): array
    {
        $headers = ['Content-Type: application/json'];
        if ($this->token !== '') {
            $headers[] = 'Authorization: Bearer ' . $this->token;
        }
        if ($method !== 'GET') { // the answer to the first try may be lost
            $headers[] = 'Idempotency-Key: ' . ($key ?? bin2hex(random_bytes(16)));
        }
        $context = stream_context_create(['http' => [
            'method' => $method, 'header' => $headers, 'content' => $body ?? '', 'ignore_errors' => true, 'timeout' => 30,
        ]]);
        for ($try = 1; ; $try++) {
            $answer = @file_get_contents($this->url . $path, false, $context);
            $status = $answer === false ? 0 : (int) explode(' ', $http_response_header[0])[1];
            $document = $answer === false ? null : json_decode($answer, true);
            if ($status >= 200 && $status < 300 && is_array($document)) {
                return $document;
            }
            $problem = new Problem($status, is_array($document) ? $document : ['detail' => 'no answer from ' . $this->url]);
            $again = $status < 300 || $status >= 500 && $status !== 501 && $status !== 507 || $problem->is('in_progress');
            if (!$again || $try === 8) {
                throw $problem;
            }
            usleep(random_int(50_000, 150_000) * 2 ** min($try - 1, 5)); // not all clients at once
        }
    }

    /** id=a&id=b, where PHP would write id[0]=a. */
    private static function query(array $query): string
    {
        $parts = [];
        foreach ($query as $name => $values) {
            foreach ((array) $values as $value) {
                $parts[] = rawurlencode($name) . '=' . rawurlencode((string) $value);
            }
        }
        return implode('&', $parts);
    }
}
