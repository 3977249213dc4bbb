package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
)

// index is the downstream copy: a full-text index that knows of each document
// its words and its stamp.
type index struct{ bleve bleve.Index }

// createIndex makes an empty index in a folder. The parent does it before there
// is an indexer that could be killed half-way through it.
//
// unsafe_batch is off, so that Bleve's Batch returns only when the batch
// survives whatever happens to the process: segment and root written, and synced
// to disk. This is the one thing that an Ick asks of what is downstream. A
// commit says "this work is done for good", and comes right after Batch
// returned. Were it on, Batch would return while the batch is in memory: a kill
// would lose work that was committed, and no mark would be left to do it again.
//
// Off is Bleve's default too, spelt out because all depends on it. It costs
// little: the sync is shared by a hundred documents.
func createIndex(folder string) error {
	text := bleve.NewTextFieldMapping() // full-text search, and nothing that it can do without
	text.Store, text.IncludeInAll, text.IncludeTermVectors, text.DocValues = false, false, false, false
	stamp := bleve.NewKeywordFieldMapping() // to be read back only
	stamp.Index, stamp.IncludeInAll, stamp.DocValues = false, false, false

	fields := bleve.NewDocumentStaticMapping()
	fields.AddFieldMappingsAt("text", text)
	fields.AddFieldMappingsAt("stamp", stamp)
	mapping := bleve.NewIndexMapping()
	mapping.DefaultMapping = fields

	created, err := bleve.NewUsing(indexPath(folder), mapping, scorch.Name, scorch.Name,
		map[string]any{"unsafe_batch": false})
	if err != nil {
		return fmt.Errorf("create the index: %w", err)
	}
	return created.Close()
}

// openIndex opens the index in a folder. One process at a time can: the file
// lock that sees to it ends with its holder, however that ends.
func openIndex(folder string) (*index, error) {
	opened, err := bleve.OpenUsing(indexPath(folder), map[string]any{"bolt_timeout": "10s"})
	if err != nil {
		return nil, fmt.Errorf("open the index: %w", err)
	}
	return &index{bleve: opened}, nil
}

func indexPath(folder string) string { return filepath.Join(folder, "index.bleve") }

func (x *index) close() error { return x.bleve.Close() }

// apply brings the index in line with documents, and removes those that are no
// more. It returns when that is on disk.
func (x *index) apply(docs []document) error {
	batch := x.bleve.NewBatch()
	for _, d := range docs {
		if d.Version == 0 {
			batch.Delete(d.ID)
			continue
		}
		err := batch.Index(d.ID, map[string]any{
			"text":  strings.ToValidUTF8(string(d.Text), "\uFFFD"),
			"stamp": d.stamp(),
		})
		if err != nil {
			return fmt.Errorf("index %q: %w", d.ID, err)
		}
	}
	return x.bleve.Batch(batch)
}

// stamps returns the stamp of every document in the index.
func (x *index) stamps() (map[string]string, error) {
	size, err := x.bleve.DocCount()
	if err != nil {
		return nil, err
	}
	request := bleve.NewSearchRequestOptions(bleve.NewMatchAllQuery(), int(size), 0, false)
	request.Fields = []string{"stamp"}
	result, err := x.bleve.Search(request)
	if err != nil {
		return nil, err
	}
	stamps := make(map[string]string, len(result.Hits))
	for _, hit := range result.Hits {
		stamps[hit.ID], _ = hit.Fields["stamp"].(string)
	}
	return stamps, nil
}

// search returns the ids of documents that have a word, ten at most.
func (x *index) search(word string) ([]string, error) {
	query := bleve.NewMatchQuery(word)
	query.SetField("text")
	result, err := x.bleve.Search(bleve.NewSearchRequest(query))
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(result.Hits))
	for i, hit := range result.Hits {
		ids[i] = hit.ID
	}
	return ids, nil
}
