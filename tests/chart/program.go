package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The binary, and the server that it asks for names.
type program struct{ binary, names string }

// check has the binary look at the command lines of servers and routers, and at the configuration of routers, as they would be started.
// It gives what the binary says of where routers send a get.
func (program program) check(all decoded) (explained string, err error) {
	folder, err := os.MkdirTemp("", "guira-chart")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	for name, set := range all.sets {
		if err := fill(folder, set.Spec.Template.Spec.Containers[0], all.configurations[name]); err != nil {
			return "", err
		}
		var arguments []string
		for _, argument := range set.Spec.Template.Spec.Containers[0].Args[1:] {
			arguments = append(arguments, strings.Replace(argument, "/etc/guira/", folder+"/", 1))
		}
		switch arguments[0] {
		case "serve":
			arguments = append(arguments, "--print-config")
		case "router":
			arguments = append(arguments, "--validate-config", "--dns-server="+program.names)
		default:
			// Their configurations are not the chart's.
			arguments = append(arguments, "--help")
		}
		if _, err := program.run(arguments...); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if arguments[0] == "router" {
			if explained, err = program.run("router", "explain", "--dns-server="+program.names, filepath.Join(folder, "router/router.json"), "get", "k"); err != nil {
				return "", err
			}
		}
	}
	return explained, nil
}

func (program program) run(arguments ...string) (string, error) {
	output, err := exec.Command(program.binary, arguments...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("guira %s: %w\n%s", strings.Join(arguments, " "), err, output)
	}
	return string(output), nil
}

// fill puts what a container finds in /etc/guira into a folder: a certificate into each Secret, and the files of a ConfigMap.
func fill(folder string, container corev1.Container, configuration *corev1.ConfigMap) error {
	certificate, key, err := certify()
	if err != nil {
		return err
	}
	for _, mount := range container.VolumeMounts {
		below, isOurs := strings.CutPrefix(mount.MountPath, "/etc/guira/")
		if !isOurs {
			continue
		}
		files := map[string]string{"tls.crt": certificate, "tls.key": key, "ca.crt": certificate}
		if mount.Name == "config" {
			files = configuration.Data
		}
		if err := os.MkdirAll(filepath.Join(folder, below), 0o700); err != nil {
			return err
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(folder, below, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// certify makes a certificate that is its own authority, and its key.
func certify() (certificate, key string, err error) {
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"cache"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	bytes, err := x509.CreateCertificate(rand.Reader, &template, &template, pair.Public(), pair)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		return "", "", err
	}
	text := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return text("CERTIFICATE", bytes), text("PRIVATE KEY", secret), nil
}

// answerNames starts a DNS server that has an SRV record of two servers for each name, and no addresses.
func answerNames() (net.PacketConn, error) {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		buffer := make([]byte, 1500)
		for {
			length, sender, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply := answer(buffer[:length]); reply != nil {
				socket.WriteTo(reply, sender)
			}
		}
	}()
	return socket, nil
}

const (
	header = 12
	srv    = 33
)

// answer replies to a question with one name: an SRV record's targets are server-0 and server-1 in its domain.
func answer(question []byte) []byte {
	end := header
	for end < len(question) && question[end] != 0 {
		end += int(question[end]) + 1
	}
	end += 1 + 4
	if end > len(question) {
		return nil
	}
	var records []byte
	kind := binary.BigEndian.Uint16(question[end-4:])
	count := uint16(0)
	if kind == srv {
		for count < 2 {
			// Priority and weight, port, and a target that ends as the question's name does behind its first two labels.
			domain := header + int(question[header]) + 1
			domain += int(question[domain]) + 1
			target := append([]byte{8}, fmt.Sprintf("server-%d", count)...)
			target = binary.BigEndian.AppendUint16(target, 0xc000|uint16(domain))
			data := append([]byte{0, 0, 0, 0, 0x2b, 0xcb}, target...)
			record := []byte{0xc0, header, 0, srv, 0, 1, 0, 0, 0, 60}
			record = binary.BigEndian.AppendUint16(record, uint16(len(data)))
			records = append(records, append(record, data...)...)
			count++
		}
	}
	reply := append([]byte{}, question[:end]...)
	binary.BigEndian.PutUint16(reply[2:], 0x8180)
	binary.BigEndian.PutUint16(reply[6:], count)
	binary.BigEndian.PutUint16(reply[8:], 0)
	binary.BigEndian.PutUint16(reply[10:], 0)
	return append(reply, records...)
}
