package api

// Routes returns the method and path of every route.
func Routes() [][2]string {
	a := &api{}
	var all [][2]string
	for _, r := range append(a.routes(), a.publicRoutes()...) {
		all = append(all, [2]string{r.method, r.path})
	}
	return all
}
