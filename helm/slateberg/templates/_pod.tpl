{{/* The pod. It is the same in a Deployment and in a StatefulSet, except for the location of the state. */}}

{{- define "slateberg.pod" -}}
metadata:
  labels:
    {{- include "slateberg.labels" . | nindent 4 }}
    {{- if .Values.identity.azureClientId }}
    azure.workload.identity/use: "true"
    {{- end }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # The server reads its settings at the start, so a change of the settings must replace the pod.
    checksum/config: {{ include "slateberg.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "slateberg.serviceAccountName" . }}
  # The server never calls the Kubernetes API. Cloud identities use separate volumes for their tokens.
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add (include "slateberg.leaveSeconds" .) (dig "server" "drain_seconds_max" 30 .Values.config) .Values.closeSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
    - name: slateberg
      image: {{ include "slateberg.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/slateberg/config/slateberg.toml]
      {{- $isCluster := include "slateberg.isCluster" . }}
      {{- if or .Values.env .Values.secretSettings $isCluster }}
      env:
        {{- range $path, $secret := .Values.secretSettings }}
        - name: SLATEBERG__{{ $path | upper | replace "." "__" }}
          valueFrom:
            secretKeyRef:
              name: {{ $secret.name }}
              key: {{ $secret.key }}
        {{- end }}
        {{- if $isCluster }}
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: SLATEBERG__CLUSTER__ENABLED
          value: "true"
        - name: SLATEBERG__CLUSTER__ADVERTISE
          value: $(POD_IP):{{ include "slateberg.membersPort" . }}
        - name: SLATEBERG__CLUSTER__NAME
          value: $(POD_NAME)
        {{- end }}
        {{- with .Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with .Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: http
          containerPort: {{ .Values.containerPort }}
          protocol: TCP
        {{- if .Values.management.enabled }}
        - name: management
          containerPort: {{ .Values.management.containerPort }}
          protocol: TCP
        {{- end }}
        {{- if $isCluster }}
        - name: members
          containerPort: {{ include "slateberg.membersPort" . }}
          protocol: TCP
        {{- end }}
      {{- with include "slateberg.leaveSeconds" . | int }}
      lifecycle:
        preStop:
          sleep:
            seconds: {{ . }}
      {{- end }}
      startupProbe:
        {{- include "slateberg.probe" (dict "root" . "path" "/ready") | nindent 8 }}
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: {{ div (add .Values.startupSecondsMax 1) 2 }}
      {{- /* If client certificates are required, a liveness probe could only connect, as the readiness probe does. */}}
      {{- if not (include "slateberg.operatorsShowCertificate" .) }}
      livenessProbe:
        {{- include "slateberg.probe" (dict "root" . "path" "/health") | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      {{- end }}
      readinessProbe:
        {{- include "slateberg.probe" (dict "root" . "path" "/ready") | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      resources:
        {{- include "slateberg.resources" . | nindent 8 }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /etc/slateberg/config
          readOnly: true
        {{- if .Values.persistence.enabled }}
        - name: data
          mountPath: /var/lib/slateberg
        {{- else if .Values.cache.enabled }}
        - name: cache
          mountPath: /var/cache/slateberg
        {{- end }}
        {{- if .Values.policies }}
        - name: policies
          mountPath: /etc/slateberg/policies
          readOnly: true
        {{- end }}
        {{- if .Values.bootstrapKey.secretName }}
        - name: bootstrap
          mountPath: /etc/slateberg/bootstrap
          readOnly: true
        {{- end }}
        {{- if .Values.tls.secretName }}
        - name: tls
          mountPath: /etc/slateberg/tls
          readOnly: true
        {{- end }}
        {{- if .Values.tls.clientCa.secretName }}
        - name: client-ca
          mountPath: /etc/slateberg/client-ca
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "slateberg.fullname" . }}
    {{- if and .Values.cache.enabled (not .Values.persistence.enabled) }}
    - name: cache
      {{- if .Values.cache.storageClassName }}
      ephemeral:
        volumeClaimTemplate:
          spec:
            accessModes: [ReadWriteOnce]
            storageClassName: {{ .Values.cache.storageClassName }}
            resources:
              requests:
                storage: {{ .Values.cache.sizeGib }}Gi
      {{- else }}
      emptyDir:
        sizeLimit: {{ .Values.cache.sizeGib }}Gi
      {{- end }}
    {{- end }}
    {{- if .Values.policies }}
    - name: policies
      configMap:
        name: {{ include "slateberg.fullname" . }}-policies
    {{- end }}
    {{- with .Values.bootstrapKey }}
    {{- if .secretName }}
    - name: bootstrap
      secret:
        secretName: {{ .secretName }}
        items: [{key: {{ .key }}, path: key}]
        defaultMode: 0440
    {{- end }}
    {{- end }}
    {{- with .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ . }}
        # Only the group of the pod may read the files.
        defaultMode: 0440
    {{- end }}
    {{- with .Values.tls.clientCa.secretName }}
    - name: client-ca
      secret:
        secretName: {{ . }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "slateberg.affinity" . }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with (include "slateberg.spread" . | fromYaml).constraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{- toYaml . | nindent 6 }}
      {{- if not .labelSelector }}
      labelSelector:
        matchLabels:
          {{- include "slateberg.selectorLabels" $ | nindent 10 }}
      {{- end }}
    {{- end }}
  {{- end }}
{{- end -}}
