{{- /* The name of the program, in labels. */ -}}
{{- define "fleetdex.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 47 | trimSuffix "-" -}}
{{- end -}}

{{- /* What the names of all objects begin with. A name of Kubernetes has 63 characters at most, and the longest suffix here, -continue-tokens, has 16. */ -}}
{{- define "fleetdex.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 47 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 47 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 47 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* A parent chart passes its global values to all of its charts. Given to this chart alone they would have no effect, without a message. */ -}}
{{- define "fleetdex.refuseGlobal" -}}
{{- if and .Chart.IsRoot .Values.global -}}
{{- fail (printf "global.%s: this chart uses no global values; the README of the chart lists its values" (keys .Values.global | sortAlpha | first)) -}}
{{- end -}}
{{- end -}}

{{- define "fleetdex.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "fleetdex.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "fleetdex.selector" -}}
app.kubernetes.io/name: {{ include "fleetdex.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fleetdex.labels" -}}
{{ include "fleetdex.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "fleetdex.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- /* The Secret with a certificate that the operator does not make itself; empty if it does. */ -}}
{{- define "fleetdex.tlsSecret" -}}
{{- if .Values.api.certManager.enabled -}}
{{- if .Values.api.tlsSecret -}}
{{- fail "api.tlsSecret and api.certManager.enabled are two sources of one certificate: set one of them" -}}
{{- end -}}
{{- include "fleetdex.fullname" . }}-tls
{{- else -}}
{{- .Values.api.tlsSecret -}}
{{- end -}}
{{- end -}}

{{- /* Labels of Pods that are not the operator's: no Service, and no other selector of this chart, may select them. */ -}}
{{- define "fleetdex.jobLabels" -}}
app.kubernetes.io/name: {{ include "fleetdex.name" .root }}-{{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "fleetdex.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "fleetdex.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* Where the Pods of hook Jobs and tests may run, and with which image: as the operator's. */ -}}
{{- define "fleetdex.jobScheduling" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
