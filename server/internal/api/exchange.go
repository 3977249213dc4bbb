package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
)

// exchange is how huma sees a request and answers it: in JSON, whatever the client
// accepts, and with 400 for what it finds wrong.
type exchange struct{ humaContext }

// humaContext is huma.Context under a name that none of its methods has.
type humaContext huma.Context

// Header returns a header of the request. What the body is was checked before.
func (e exchange) Header(name string) string {
	switch name {
	case "Accept":
		return ""
	case "Content-Type":
		return jsonType
	}
	return e.humaContext.Header(name)
}

// SetStatus answers with a status.
func (e exchange) SetStatus(status int) {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	if status >= http.StatusBadRequest {
		e.SetHeader("Content-Type", problemType)
	}
	e.humaContext.SetStatus(status)
}

// maxErrors is how many things that are wrong with a request are told.
const maxErrors = 100

// problems makes problems of what huma says is wrong with a request. A program may
// have had it say that in another form ([huma.NewError]).
func problems(_ huma.Context, _ string, v any) (any, error) {
	switch wrong := v.(type) {
	case *problem:
		return v, nil
	case *huma.ErrorModel:
		p := problemOf(errRequest.Errorf("%s", wrong.Detail))
		for _, one := range wrong.Errors[:min(len(wrong.Errors), maxErrors)] {
			p.Errors = append(p.Errors, fieldError{brief(one.Location), brief(inWords(one))})
		}
		if len(p.Errors) > 0 {
			p.Detail = brief(p.Errors[0].Location + ": " + p.Errors[0].Message)
		}
		return p, nil
	case huma.StatusError:
		return problemOf(errRequest.Errorf("%s", wrong)), nil
	}
	return v, nil
}

// inWords says what huma found wrong with a value, which is not repeated: it may be
// large, or a secret.
func inWords(wrong *huma.ErrorDetail) string {
	if wrong.Message != validation.MsgExpectedMatchExactlyOneSchema {
		return wrong.Message
	}
	if strings.HasSuffix(wrong.Location, ".score") {
		return `expected a number, "inf" or "-inf"`
	}
	return `expected a string, or {"base64":"..."} for bytes`
}

// said has errors of reading JSON say what was expected, and not in which Go type.
func said(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errors.New(strings.TrimPrefix(wrong.Field+" ", " ") + "is a JSON " + wrong.Value + ", which it cannot be")
	}
	return err
}
