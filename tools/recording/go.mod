module github.com/stint-dev/stint/tools/recording

go 1.26.0

require github.com/creack/pty v1.1.24
