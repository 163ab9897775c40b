{{/* Names, labels and other values that several templates share. */}}

{{- define "slateberg.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "slateberg.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "slateberg.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "slateberg.selectorLabels" -}}
app.kubernetes.io/name: {{ include "slateberg.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "slateberg.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "slateberg.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "slateberg.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "slateberg.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "slateberg.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "slateberg.scheme" -}}
{{- ternary "https" "http" (ne .Values.tls.secretName "") -}}
{{- end -}}

{{/* Whether clients of the server need a client certificate: "off", "optional" or "required". */}}
{{- define "slateberg.clientCertificates" -}}
{{- dig "server" "tls" "client_certificates" "off" .Values.config -}}
{{- end -}}

{{/* The port for requests of operators: the management port if it is enabled, otherwise the client port. */}}
{{- define "slateberg.operatorPort" -}}
{{- ternary "management" "http" .Values.management.enabled -}}
{{- end -}}

{{- define "slateberg.operatorScheme" -}}
{{- $plain := and .Values.management.enabled (dig "server" "management" "plain_http" false .Values.config) -}}
{{- ternary "http" (include "slateberg.scheme" .) $plain -}}
{{- end -}}

{{/* Whether requests of operators require a client certificate: "yes" or an empty string. */}}
{{- define "slateberg.operatorsShowCertificate" -}}
{{- if and (eq (include "slateberg.clientCertificates" .) "required") (eq (include "slateberg.operatorScheme" .) "https") -}}
yes
{{- end -}}
{{- end -}}

{{/* A probe of this path. If the port requires a client certificate, the probe only opens a connection. */}}
{{- define "slateberg.probe" -}}
{{- if include "slateberg.operatorsShowCertificate" .root -}}
tcpSocket:
  port: {{ include "slateberg.operatorPort" .root }}
{{- else -}}
httpGet:
  path: {{ .path }}
  port: {{ include "slateberg.operatorPort" .root }}
  scheme: {{ include "slateberg.operatorScheme" .root | upper }}
{{- end -}}
{{- end -}}

{{/* Resources, including storage on the node's disk: Kubernetes evicts a pod that writes more than it declares. */}}
{{- define "slateberg.resources" -}}
{{- $onNode := and .Values.cache.enabled (not .Values.persistence.enabled) (not .Values.cache.storageClassName) -}}
{{- $storage := dict "ephemeral-storage" (printf "%vGi" (add 1 (ternary .Values.cache.sizeGib 0 $onNode))) -}}
{{- $ours := dict "requests" $storage "limits" (deepCopy $storage) -}}
{{- toYaml (mergeOverwrite $ours (deepCopy .Values.resources)) -}}
{{- end -}}

{{/* The settings of the server: the settings in the values, and the settings that the chart sets itself. */}}
{{- define "slateberg.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- include "slateberg.check" . -}}
{{- $server := dict "listen" (printf "0.0.0.0:%v" .Values.containerPort) -}}
{{- if .Values.management.enabled -}}
{{- $_ := set $server "management" (dict "listen" (printf "0.0.0.0:%v" .Values.management.containerPort)) -}}
{{- end -}}
{{- if .Values.tls.secretName -}}
{{- $tls := dict "certificate_file" "/etc/slateberg/tls/tls.crt" "key_file" "/etc/slateberg/tls/tls.key" -}}
{{- if .Values.tls.clientCa.secretName -}}
{{- $_ := set $tls "client_ca_file" (printf "/etc/slateberg/client-ca/%s" .Values.tls.clientCa.key) -}}
{{- end -}}
{{- $_ := set $server "tls" $tls -}}
{{- end -}}
{{- $ours := dict "data_dir" "/var/lib/slateberg" "server" $server -}}
{{- if and .Values.cache.enabled (not .Values.persistence.enabled) -}}
{{- $bytes := div (mul (int64 .Values.cache.sizeGib) 1073741824 9) 10 -}}
{{- $_ := set $ours "store" (dict "object_cache_dir" "/var/cache/slateberg" "object_cache_bytes" $bytes) -}}
{{- end -}}
{{- if .Values.bootstrapKey.secretName -}}
{{- $_ := set $ours "authn" (dict "bootstrap_key_file" "/etc/slateberg/bootstrap/key") -}}
{{- end -}}
{{- if .Values.policies -}}
{{- $_ := set $ours "authz" (dict "policy_paths" (list "/etc/slateberg/policies")) -}}
{{- end -}}
{{- include "slateberg.toml" (dict "path" "" "table" (mergeOverwrite $config $ours)) -}}
{{- end -}}

{{/* Rejects values that contradict each other or would lose data, before a pod fails to start with them. */}}
{{- define "slateberg.check" -}}
{{- $config := .Values.config -}}
{{- if .Values.persistence.enabled -}}
{{- if dig "state" "url" "" $config -}}
{{- fail "config.state.url and persistence.enabled are both set: the state is either in a bucket or on a disk, so remove one of them" -}}
{{- end -}}
{{- else -}}
{{- if not (dig "state" "url" "" $config) -}}
{{- fail "config.state.url is not set: set it to the URL of the catalog's state, such as s3://bucket/slateberg, or set persistence.enabled" -}}
{{- end -}}
{{- end -}}
{{- $warehouse := default "default" $config.default_warehouse -}}
{{- if not (or (eq $warehouse "default") (hasKey (default dict $config.warehouses) $warehouse)) -}}
{{- fail (printf "config.default_warehouse: there is no warehouse '%s' in config.warehouses" $config.default_warehouse) -}}
{{- end -}}
{{- if and (ne (include "slateberg.clientCertificates" .) "off") (not .Values.tls.clientCa.secretName) -}}
{{- fail "config.server.tls.client_certificates requests client certificates: set tls.clientCa.secretName to the CA that signs them" -}}
{{- end -}}
{{- if and (not .Values.management.enabled) (dig "server" "management" "plain_http" false $config) -}}
{{- fail "config.server.management.plain_http needs management.enabled" -}}
{{- end -}}
{{- if and .Values.tls.clientCa.secretName (not .Values.tls.secretName) -}}
{{- fail "tls.clientCa needs tls.secretName: there are no client certificates without HTTPS" -}}
{{- end -}}
{{- end -}}
