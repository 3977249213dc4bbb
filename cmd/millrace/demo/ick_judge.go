package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// judge compares what the Ick and the consumers did with what the scene knows
// itself. The producers have ended, and the consumers, too.
func (p *ickPlay) judge(ctx context.Context) (Scene, error) {
	var seen Scene
	changed, kept, err := p.compare(ctx, &seen)
	if err != nil {
		return seen, err
	}
	marks, fresh, repeats := p.marks.Load(), p.fresh.Load(), p.repeats.Load()
	of := p.last.Counters
	counted := of.New + of.Folded

	seen.check("nothing_forgotten", kept == changed,
		"every document's last change was processed after it was made: %s of %s",
		grouped(kept), grouped(changed))
	left := p.last.Total + p.last.Parked
	seen.check("drained", left == 0,
		"the Ick ended up empty: %s marks left", grouped(left))
	seen.check("handed_out", of.Reserved == of.New,
		"every new mark was handed out to a consumer: %s of %s", grouped(of.Reserved), grouped(of.New))

	if repeats == 0 {
		seen.check("counted", counted == marks && of.New == fresh,
			"every mark made was new or folded, and producers and Ick agree: %s new + %s folded = %s made",
			grouped(of.New), grouped(of.Folded), grouped(marks))
	} else {
		seen.check("counted", counted >= marks && of.New >= fresh,
			"no mark made is missing in the Ick's counts: %s made, %s counted, as %s calls were sent again for want of a reply",
			grouped(marks), grouped(counted), grouped(repeats))
	}

	seen.count("documents", changed, "documents changed", "newer ones more often, by Zipf's law")
	seen.count("changes", marks, "changes made and marked",
		grouped(perSecond(marks, p.producing))+" a second")
	seen.count("folded", of.Folded, "marks folded into one that waited", percent(of.Folded, counted)+" of all")
	seen.count("new", of.New, "marks that were new", "")
	seen.count("batches", p.batches.Load(), "batches handed out", "")
	seen.count("processed", p.processed.Load(), "documents processed",
		fmt.Sprintf("%.2f for each change", float64(p.processed.Load())/float64(max(1, marks))))
	seen.count("kills", int64(p.kills), "consumers killed", "another one started each time")
	seen.count("kept", of.Kept, "late commits that a token held back", "without tokens each could lose a change")
	seen.time("greatest_age_ms", time.Duration(p.oldest.Load()), "greatest age of a mark", "when a consumer got it")
	seen.time("producing_ms", p.producing, "making changes", "")
	seen.time("draining_ms", p.draining, "and until all was processed", "")
	return seen, nil
}

// compareAtOnce is how many documents are asked for in one command.
const compareAtOnce = 1000

// compare returns how many documents were changed, and of how many the last
// change was processed. Those of which it was not are failures.
func (p *ickPlay) compare(ctx context.Context, seen *Scene) (changed, kept int64, err error) {
	for first := 0; first < len(p.documents.all); first += compareAtOnce {
		some := p.documents.all[first:min(first+compareAtOnce, len(p.documents.all))]
		processed, err := processedVersions(ctx, p.client, p.name, some)
		if err != nil {
			return 0, 0, err
		}
		for i, doc := range some {
			switch {
			case doc.version == 0:
			case processed[i] == doc.version:
				changed++
				kept++
			default:
				changed++
				seen.fail("%s was changed to version %d last, and processed in version %d last",
					doc.id, doc.version, processed[i])
			}
		}
	}
	if more := changed - kept - int64(len(seen.Failures)); more > 0 {
		seen.Failures = append(seen.Failures, fmt.Sprintf("and %s more documents", grouped(more)))
	}
	return changed, kept, nil
}

// processedVersions returns the versions in which documents were processed
// last, 0 for never.
func processedVersions(ctx context.Context, client rueidis.Client, name string, docs []*document) ([]int64, error) {
	ids := make([]string, len(docs))
	for i, doc := range docs {
		ids[i] = doc.id
	}
	scores, err := client.Do(ctx, client.B().Zmscore().Key(processedKey(name)).Member(ids...).Build()).ToArray()
	if err != nil {
		return nil, err
	}
	found := make([]int64, len(docs))
	for i, score := range scores {
		if score.IsNil() {
			continue
		}
		version, err := score.AsFloat64()
		if err != nil {
			return nil, err
		}
		found[i] = int64(version)
	}
	return found, nil
}

// perSecond returns a rate.
func perSecond(n int64, over time.Duration) int64 {
	if over <= 0 {
		return 0
	}
	return int64(float64(n) / over.Seconds())
}

// percent writes a share.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0%"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}
