#!/bin/sh
# Writes ca.crt, and tls.crt and tls.key for the interpreter's Service and for localhost, to the current folder.
set -eu
name=workload-interpreter.workload-interpreter.svc
openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=workload-interpreter-ca" \
  -keyout ca.key -out ca.crt
openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout tls.key -out tls.csr
printf 'subjectAltName = DNS:%s, DNS:localhost, IP:127.0.0.1\n' "$name" >tls.ext
openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile tls.ext \
  -out tls.crt
rm -f tls.csr tls.ext ca.srl
