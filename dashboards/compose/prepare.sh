#!/bin/bash
# Generates what OpenSearch and Dashboards need with security on: a certificate authority, the certificate of the node, passwords,
# users with their hashes, and both configurations. Runs in OpenSearch's image, which has keytool and hash.sh, and changes nothing
# that an earlier run has made.
#
# usage: prepare.sh FOLDER OPENSEARCH_HOME
set -euo pipefail
folder=$1 home=$2
[ ! -e "$folder/complete" ] || exit 0
export JAVA_HOME=${OPENSEARCH_JAVA_HOME:-${JAVA_HOME:-$home/jdk}} OPENSEARCH_JAVA_HOME=${OPENSEARCH_JAVA_HOME:-${JAVA_HOME:-$home/jdk}}
keytool=$JAVA_HOME/bin/keytool
cd "$folder"
rm -f ./*

# 40 letters and digits, and one of each class that a policy may ask for.
password() {
  local text
  text=$(head -c 3000 /dev/urandom | LC_ALL=C tr -dc 'A-Za-z0-9')
  printf '%s-aA1' "${text:0:40}"
}
for name in admin kibanaserver keystore cookie; do password > "$name"; done

store() { "$keytool" "$@" -storetype PKCS12 -storepass:file keystore; }
key() { store -genkeypair -keyalg EC -groupname secp256r1 -validity 3650 "$@"; }
key -alias ca -dname CN=fleetdex-compose-ca -ext bc:c=ca:true -ext ku:c=keyCertSign -keystore ca.p12
key -alias node -dname CN=opensearch -keystore node.p12
store -exportcert -rfc -alias ca -keystore ca.p12 > ca.pem
store -certreq -alias node -keystore node.p12 |
  store -gencert -rfc -alias ca -keystore ca.p12 -validity 3650 \
    -ext san=dns:opensearch,dns:localhost,ip:127.0.0.1 -ext eku=serverAuth,clientAuth > node.pem
store -importcert -noprompt -alias ca -file ca.pem -keystore node.p12
store -importcert -noprompt -alias node -file node.pem -keystore node.p12
store -importcert -noprompt -alias ca -file ca.pem -keystore trust.p12
# Nothing else is ever signed.
rm ca.p12 node.pem

hash() { PASSWORD=$(cat "$1") bash "$home/plugins/opensearch-security/tools/hash.sh" -env PASSWORD 2>/dev/null | tail -n 1; }
cat > internal_users.yml <<END
_meta: {type: internalusers, config_version: 2}
admin: {hash: "$(hash admin)", reserved: true, backend_roles: [admin]}
kibanaserver: {hash: "$(hash kibanaserver)", reserved: true}
END

{
  echo 'cluster.name: fleetdex-compose'
  echo 'network.host: 0.0.0.0'
  echo 'discovery.type: single-node'
  echo 'plugins.security.ssl.http.enabled: true'
  echo 'plugins.security.ssl.transport.enforce_hostname_verification: false'
  for layer in http transport; do
    echo "plugins.security.ssl.$layer.keystore_type: PKCS12"
    echo "plugins.security.ssl.$layer.keystore_filepath: node.p12"
    echo "plugins.security.ssl.$layer.keystore_alias: node"
    echo "plugins.security.ssl.$layer.keystore_password: $(cat keystore)"
    echo "plugins.security.ssl.$layer.truststore_type: PKCS12"
    echo "plugins.security.ssl.$layer.truststore_filepath: trust.p12"
    echo "plugins.security.ssl.$layer.truststore_password: $(cat keystore)"
  done
  echo "plugins.security.nodes_dn: ['CN=opensearch']"
  # Reads the users above at the first start.
  echo 'plugins.security.allow_default_init_securityindex: true'
  echo 'plugins.security.restapi.roles_enabled: [all_access]'
} > opensearch.yml

cat > opensearch_dashboards.yml <<END
server.host: 0.0.0.0
opensearch.hosts: ["https://opensearch:9200"]
opensearch.ssl.certificateAuthorities: ["/generated/ca.pem"]
opensearch.ssl.verificationMode: full
opensearch.username: kibanaserver
opensearch.password: "$(cat kibanaserver)"
opensearch.requestHeadersAllowlist: [authorization, securitytenant]
opensearch_security.multitenancy.enabled: true
opensearch_security.multitenancy.tenants.preferred: [Global, Private]
opensearch_security.readonly_mode.roles: [kibana_read_only]
opensearch_security.cookie.secure: false
opensearch_security.cookie.password: "$(cat cookie)"
END

# The containers that mount the folder run as different users.
chmod 0444 ./*
touch complete
