<?php
declare(strict_types=1);

// The page of an item in an archive: php item.php item-17
require __DIR__ . '/millrace.php';

$item = $argv[1] ?? 'item-17';
$millrace = new Millrace();

// May it be edited? Not while tasks of it are queued or running. The tracker answers from memory; until it has read the whole
// table once, it may not know, and the page asks the database.
$answer = $millrace->get(Millrace::path('trackers', 'tasks', 'queued'), ['id' => $item])['answers'][0];
echo "tasks of $item: {$answer['state']}\n";

// A session: a hash of which each field expires by itself.
$session = Millrace::path('hashes', 'sessions', 'user:17');
$millrace->post("$session/set", ['fields' => ['csrf' => '3f9a'], 'ttl' => '30m']);
$millrace->post("$session/set", ['fields' => ['theme' => 'dark']]);
$visits = $millrace->post("$session/incr", ['field' => 'visits', 'by' => 1])['value'];
foreach ($millrace->get($session, ['field' => ['csrf', 'theme']])['fields'] as $field) {
    echo "{$field['field']}: {$field['value']}", $field['ttl_ms'] < 0 ? '' : ', expires', "\n";
}
echo "visits: $visits\n";

// A value that is there until its time, however full the memory is: the item is checked out.
$checkout = Millrace::path('pinned', 'checkouts', $item);
$set = $millrace->post("$checkout/set", ['value' => 'user:17', 'ttl' => '1h', 'if' => 'none'])['set'];
echo $set ? "checked out\n" : 'checked out by ' . $millrace->get($checkout)['value'] . "\n";

// A lease: one process rebuilds the item's derivatives, the others go on without. The fence goes to what is written.
$lease = Millrace::path('leases', "derive $item");
try {
    $held = $millrace->post("$lease/acquire", ['ttl' => '5m', 'metadata' => gethostname()]);
    echo "rebuilding\n"; // with $held['fence']
    $millrace->post("$lease/release", ['token' => $held['token']]);
} catch (Problem $problem) {
    if (!$problem->is('held')) {
        throw $problem;
    }
    echo "another process rebuilds\n";
}
