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

{{/* Whether the pods form a cluster: "yes" or an empty string. */}}
{{- define "slateberg.isCluster" -}}
{{- if or .Values.cluster.enabled (gt (int .Values.replicas) 1) -}}
yes
{{- end -}}
{{- end -}}

{{/* The port on which members of a cluster connect to each other. */}}
{{- define "slateberg.membersPort" -}}
9182
{{- end -}}

{{/*
The strategy of the Deployment. A single server and a member must not run on the same state at the same time, so an
upgrade from one to the other stops all old pods before it starts new ones. Without access to Kubernetes, as in
`helm template`, the running Deployment is unknown.
*/}}
{{- define "slateberg.strategy" -}}
{{- $strategy := ternary .Values.cluster.strategy "Recreate" (ne (include "slateberg.isCluster" .) "") -}}
{{- with lookup "apps/v1" "Deployment" .Release.Namespace (include "slateberg.fullname" .) -}}
{{- $names := list -}}
{{- range .spec.template.spec.containers -}}
{{- range .env -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}
{{- if not (has "SLATEBERG__CLUSTER__ENABLED" $names) -}}
{{- $strategy = "Recreate" -}}
{{- end -}}
{{- end -}}
{{- $strategy -}}
{{- end -}}

{{/*
Time in seconds between the removal of a member's pod from the endpoints of the Service and its SIGTERM. The server
closes its ports on SIGTERM, but proxies on other nodes may send connections for a moment longer. 0 for no such time: a
single server has no other pod that could accept these connections. Kubernetes 1.29 does not support it by default.
*/}}
{{- define "slateberg.leaveSeconds" -}}
{{- $isSupported := semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version -}}
{{- ternary 5 0 (and (ne (include "slateberg.isCluster" .) "") $isSupported) -}}
{{- end -}}

{{/* Affinity of the pod. The pods of a cluster prefer different nodes. */}}
{{- define "slateberg.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- if and (include "slateberg.isCluster" .) (not (hasKey $affinity "podAntiAffinity")) -}}
{{- $labels := include "slateberg.selectorLabels" . | fromYaml -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $labels) -}}
{{- $preferred := list (dict "weight" 100 "podAffinityTerm" $term) -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $preferred) -}}
{{- end -}}
{{- with $affinity -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/*
Constraints for the distribution of the pods, as an object with the key `constraints`. The pods of a cluster prefer
different zones. Nodes have a label for their zone only in clouds. Without this label, the constraint has no effect, and
would disable a constraint for nodes beside it. Therefore, the affinity distributes the pods over nodes. During a
rollout, only pods of the same version count (pod-template-hash).
*/}}
{{- define "slateberg.spread" -}}
{{- $constraints := .Values.topologySpreadConstraints -}}
{{- if and (include "slateberg.isCluster" .) (not $constraints) -}}
{{- $zones := dict "maxSkew" 1 "topologyKey" "topology.kubernetes.io/zone" "whenUnsatisfiable" "ScheduleAnyway" -}}
{{- $constraints = list (set $zones "matchLabelKeys" (list "pod-template-hash")) -}}
{{- end -}}
{{- toYaml (dict "constraints" $constraints) -}}
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
{{- if include "slateberg.isCluster" . -}}
{{- include "slateberg.checkCluster" . -}}
{{- end -}}
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

{{/* Rejects values that a cluster does not support. */}}
{{- define "slateberg.checkCluster" -}}
{{- $on := ternary "cluster.enabled" (printf "replicas: %v" .Values.replicas) .Values.cluster.enabled -}}
{{- $url := dig "state" "url" "" .Values.config -}}
{{- if .Values.persistence.enabled -}}
{{- fail (printf "%s: a cluster requires a state in a bucket, but persistence.enabled stores it on the disk of one pod. Set config.state.url to a bucket and remove persistence, or run a single server (replicas: 1 without cluster.enabled)" $on) -}}
{{- end -}}
{{- if or (hasPrefix "file:" $url) (hasPrefix "memory:" $url) -}}
{{- fail (printf "%s: a cluster requires a state in a bucket, but config.state.url is %s. Set it to a bucket, such as s3://bucket/slateberg, or run a single server (replicas: 1 without cluster.enabled)" $on $url) -}}
{{- end -}}
{{- $members := int (include "slateberg.membersPort" .) -}}
{{- if or (eq $members (int .Values.containerPort)) (and .Values.management.enabled (eq $members (int .Values.management.containerPort))) -}}
{{- fail (printf "%s: members of a cluster connect to each other on port %d, so containerPort and management.containerPort need other ports" $on $members) -}}
{{- end -}}
{{- end -}}
