package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
)

// exchange is a request as huma sees it. It makes huma answer in JSON, whatever the client
// accepts, and with 400 for invalid requests.
type exchange struct{ humaContext }

// humaContext is huma.Context under a name that is not one of its methods.
type humaContext huma.Context

// Header returns a header of the request. admit has checked the type of the body.
func (e exchange) Header(name string) string {
	switch name {
	case "Accept":
		return ""
	case "Content-Type":
		return jsonType
	}
	return e.humaContext.Header(name)
}

func (e exchange) SetStatus(status int) {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	if status >= http.StatusBadRequest {
		e.SetHeader("Content-Type", problemType)
	}
	e.humaContext.SetStatus(status)
}

// maxErrors is how many errors of a request are reported.
const maxErrors = 100

// problems converts huma's errors to problems. A program may have replaced
// [huma.NewError], so any error with a status is converted.
func problems(_ huma.Context, _ string, v any) (any, error) {
	switch failed := v.(type) {
	case *problem:
		return v, nil
	case *huma.ErrorModel:
		p := problemOf(errRequest.Errorf("%s", failed.Detail))
		for _, e := range failed.Errors[:min(len(failed.Errors), maxErrors)] {
			p.Errors = append(p.Errors, fieldError{brief(e.Location), brief(describe(e))})
		}
		if len(p.Errors) > 0 {
			p.Detail = brief(p.Errors[0].Location + ": " + p.Errors[0].Message)
		}
		return p, nil
	case huma.StatusError:
		return problemOf(errRequest.Errorf("%s", failed)), nil
	}
	return v, nil
}

// describe describes an invalid value without quoting it: it may be large, or a secret.
func describe(e *huma.ErrorDetail) string {
	if e.Message != validation.MsgExpectedMatchExactlyOneSchema {
		return e.Message
	}
	if strings.HasSuffix(e.Location, ".score") {
		return `expected a number, "inf" or "-inf"`
	}
	return `expected a string, or {"base64":"..."} for bytes`
}

// unmarshal reads JSON. Its errors name no Go types.
func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errors.New(strings.TrimPrefix(wrong.Field+" ", " ") + "has the wrong type: a JSON " + wrong.Value)
	}
	return err
}
