package expiry

// placeOf returns the name under which a field is stored: the empty one is that of the hash's
// own record.
func placeOf(field string) string {
	if field == "" || field[0] == 0 {
		return "\x00" + field
	}
	return field
}

// placesOf returns the places of fields.
func placesOf(fields []string) []string {
	places := make([]string, len(fields))
	for i, field := range fields {
		places[i] = placeOf(field)
	}
	return places
}

// fieldAt returns the field at a place.
func fieldAt(place string) string {
	if place[0] == 0 {
		return place[1:]
	}
	return place
}
