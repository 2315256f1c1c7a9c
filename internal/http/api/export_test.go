package api

// Routes returns every route as method and path.
func Routes() [][2]string {
	a := &api{}
	var all [][2]string
	for _, r := range append(a.routes(), a.publicRoutes()...) {
		all = append(all, [2]string{r.method, r.path})
	}
	return all
}
